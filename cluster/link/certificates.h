// Certificates of the cluster link. A node has one, signed by the cluster's own authority; who shows one is a member, and its name is the
// node's. A run of one host makes its own authority, keeps it in memory, and hands each child what it needs: nothing touches a disk.
// Plain values; any thread.
#pragma once
#include "messages/error.h"

#include <memory>
#include <string>

namespace troupe::cluster::link {

/// What a node shows and whom it believes, as PEM texts.
struct NodeCertificate {
  std::string authority;    // certificate of the cluster's authority
  std::string certificate;  // of the node
  std::string key;          // private
  /// All three in one text, and back; for the pipe to a child. An Error where a part is missing.
  std::string bundle() const { return key + certificate + authority; }
  static Result<NodeCertificate> parse(const std::string& bundle);
  /// From files; errors name the option or field `where`.
  static Result<NodeCertificate> read(const std::string& authority, const std::string& certificate, const std::string& key,
                                      const std::string& where);
};

/// Makes an authority that lives as long as this object, and signs with it. P-256, valid from yesterday for ten years.
class CertificateMaker {
 public:
  static Result<CertificateMaker> make(const std::string& cluster);
  Result<NodeCertificate> issue(const std::string& node) const;

 private:
  struct Authority;
  explicit CertificateMaker(std::shared_ptr<const Authority> authority) : authority_(std::move(authority)) {}
  std::shared_ptr<const Authority> authority_;
};

}  // namespace troupe::cluster::link
