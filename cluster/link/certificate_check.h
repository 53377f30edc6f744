// Looks at the PEM texts of a node before anything starts: whether its process would be let in with them. Pure; main thread.
#pragma once
#include <optional>
#include <string>

namespace troupe::cluster::link {

struct CertificateFault {
  enum class File { kAuthority, kCertificate, kKey } file;
  std::string what;
};

/// `authority`, `certificate`, `key`: texts of the three files of node `name`.
std::optional<CertificateFault> check_certificate(const std::string& authority, const std::string& certificate, const std::string& key,
                                                  const std::string& name);

}  // namespace troupe::cluster::link
