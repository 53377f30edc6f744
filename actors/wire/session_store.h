// RequestSession <-> SessionStore: responses in pages of <= 256 KiB <-> messages/session_store.capnp.
// encode gives all pages in order; a Joiner puts them together again. Pure functions and a plain class; the reader's thread.
#pragma once
#include "messages/message.h"
#include "messages/session_store.capnp.h"
#include "runtime/session/session_tree.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace troupe::actors::wire {

inline constexpr std::size_t kPageBytes = 256 * 1024;

std::vector<Message<messages::ResponseFound>> encode(std::uint64_t query, const session::FoundResponse& found, bool want_tokens,
                                                     bool want_record, std::size_t page_bytes = kPageBytes);
std::vector<Message<messages::StoreResponse>> encode(std::uint64_t query, const session::StoredResponse& response,
                                                     std::size_t page_bytes = kPageBytes);
Message<messages::ResponsesListed> encode(std::uint64_t query, const std::vector<session::ListedResponse>& listed, bool more);

/// Joins the pages of one transfer; pages must come in order.
template <class Response>
class PageJoiner {
 public:
  /// The whole after the last page; nullopt before it. A page out of order makes `broken()` true for good.
  template <class Reader>
  std::optional<Response> add(Reader page);
  bool broken() const { return broken_; }

 private:
  Response response_;
  std::uint32_t next_ = 0;
  bool broken_ = false;
};
template <>
template <>
std::optional<session::FoundResponse> PageJoiner<session::FoundResponse>::add(messages::ResponseFound::Reader page);
template <>
template <>
std::optional<session::StoredResponse> PageJoiner<session::StoredResponse>::add(messages::StoreResponse::Reader page);

}  // namespace troupe::actors::wire
