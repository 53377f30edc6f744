// Text from outside, a server's errors and names of models, made safe to show. Pure functions, any thread.
#pragma once
#include <string>
#include <string_view>

namespace troupe::cluster {

/// A control character, which could begin a command to the terminal, becomes '?', what is no UTF-8 becomes U+FFFD.
std::string printable(std::string_view source);

}  // namespace troupe::cluster
