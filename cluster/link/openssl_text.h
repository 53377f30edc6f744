// What OpenSSL has to say, as text: its errors, what a BIO holds, names in certificates. For this folder; any thread.
#pragma once
#include <openssl/bio.h>
#include <openssl/x509.h>

#include <string>
#include <vector>

namespace troupe::cluster::link {

/// What this thread's calls have left behind, newest last; empties the queue. "" where nothing is known.
std::string openssl_errors();
/// The bytes of a memory BIO.
std::string bio_text(BIO* bio);
/// Common name and DNS names.
std::vector<std::string> names_of(X509* certificate);

}  // namespace troupe::cluster::link
