// A self-signed certificate for tests, in PEM files of a folder that goes away with it.
#pragma once
#include <filesystem>
#include <string>

namespace troupe::gateway {

class TestCertificate {
 public:
  /// A fresh key; `name` is the subject's common name, valid for an hour around now, or expired. With a `passphrase` the key file is
  /// encrypted.
  explicit TestCertificate(const std::string& name = "localhost", const std::string& passphrase = {}, bool expired = false);
  ~TestCertificate();
  TestCertificate(const TestCertificate&) = delete;
  TestCertificate& operator=(const TestCertificate&) = delete;

  std::string certificate() const { return (folder_ / "cert.pem").string(); }
  std::string key() const { return (folder_ / "key.pem").string(); }
  std::filesystem::path folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
};

}  // namespace troupe::gateway
