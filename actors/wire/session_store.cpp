#include "actors/wire/session_store.h"

#include "actors/wire/common.h"

#include <algorithm>
#include <span>

namespace troupe::actors::wire {
namespace {

/// How ids and record are spread over pages: ids first.
struct Cut {
  std::size_t token_from, token_count, byte_from, byte_count;
};
std::vector<Cut> cut_pages(std::size_t tokens, std::size_t bytes, std::size_t page_bytes) {
  std::vector<Cut> cuts;
  std::size_t token = 0, byte = 0;
  do {
    Cut cut{token, std::min(tokens - token, page_bytes / sizeof(TokenId)), byte, 0};
    cut.byte_count = std::min(bytes - byte, page_bytes - cut.token_count * sizeof(TokenId));
    token += cut.token_count;
    byte += cut.byte_count;
    cuts.push_back(cut);
  } while (token < tokens || byte < bytes);
  return cuts;
}

template <class Builder>
void write_part(const Cut& cut, std::size_t index, std::size_t count, const std::vector<TokenId>& tokens, const std::string& record,
                Builder builder) {
  auto page = builder.initPage();
  page.setIndex(static_cast<std::uint32_t>(index));
  page.setCount(static_cast<std::uint32_t>(count));
  write_list(std::span(tokens).subspan(cut.token_from, cut.token_count), [&](unsigned n) { return builder.initTokens(n); });
  if (cut.byte_count > 0) builder.setRecord(kj::arrayPtr(reinterpret_cast<const kj::byte*>(record.data()) + cut.byte_from, cut.byte_count));
}

template <class Response, class Reader>
void read_part(Response& response, Reader page) {
  for (auto token : page.getTokens()) response.tokens.push_back(token);
  const auto bytes = page.getRecord();
  response.record.append(reinterpret_cast<const char*>(bytes.begin()), bytes.size());
}

}  // namespace

std::vector<Message<messages::ResponseFound>> encode(std::uint64_t query, const session::FoundResponse& found, bool want_tokens,
                                                     bool want_record, std::size_t page_bytes) {
  static const std::vector<TokenId> no_tokens;
  static const std::string no_record;
  const auto& tokens = want_tokens ? found.tokens : no_tokens;
  const auto& record = want_record ? found.record : no_record;
  const auto cuts = cut_pages(tokens.size(), record.size(), page_bytes);
  std::vector<Message<messages::ResponseFound>> pages;
  for (std::size_t i = 0; i < cuts.size(); ++i)
    pages.push_back(Message<messages::ResponseFound>::build([&](messages::ResponseFound::Builder builder) {
      builder.setQuery(query);
      write_part(cuts[i], i, cuts.size(), tokens, record, builder);
      if (i > 0) return;
      builder.setModel(to_text(found.model));
      write(found.template_id, builder.initTemplateId());
      builder.setPromptTokens(found.prompt_tokens);
    }));
  return pages;
}

std::vector<Message<messages::StoreResponse>> encode(std::uint64_t query, const session::StoredResponse& response, std::size_t page_bytes) {
  const auto cuts = cut_pages(response.tokens.size(), response.record.size(), page_bytes);
  std::vector<Message<messages::StoreResponse>> pages;
  for (std::size_t i = 0; i < cuts.size(); ++i)
    pages.push_back(Message<messages::StoreResponse>::build([&](messages::StoreResponse::Builder builder) {
      builder.setQuery(query);
      write_part(cuts[i], i, cuts.size(), response.tokens, response.record, builder);
      builder.setId(to_text(response.id));
      if (!response.parent.empty()) builder.setParent(to_text(response.parent));
      write(response.owner, builder.initOwner());
      builder.setRetention(static_cast<messages::Retention>(response.retention));
      builder.setConnection(response.connection);
      if (!response.lane.empty()) builder.setLane(to_text(response.lane));
      builder.setTtlSeconds(static_cast<std::uint32_t>(response.ttl.count()));
      builder.setModel(to_text(response.model));
      write(response.template_id, builder.initTemplateId());
      write(response.key_domain, builder.initKeyDomain());
      builder.setInherited(response.inherited);
      builder.setPromptTokens(response.prompt_tokens);
    }));
  return pages;
}

Message<messages::ResponsesListed> encode(std::uint64_t query, const std::vector<session::ListedResponse>& listed, bool more) {
  return Message<messages::ResponsesListed>::build([&](messages::ResponsesListed::Builder reply) {
    reply.setQuery(query);
    reply.setMore(more);
    auto entries = reply.initEntries(static_cast<unsigned>(listed.size()));
    for (unsigned i = 0; i < entries.size(); ++i) {
      entries[i].setId(to_text(listed[i].id));
      if (!listed[i].parent.empty()) entries[i].setParent(to_text(listed[i].parent));
      entries[i].setPathTokens(listed[i].path_tokens);
      entries[i].setOwnTokens(listed[i].own_tokens);
      entries[i].setPinSecondsLeft(listed[i].pin_seconds_left);
      entries[i].setTtlSecondsLeft(listed[i].ttl_seconds_left);
      entries[i].setRetention(static_cast<messages::Retention>(listed[i].retention));
    }
  });
}

template <>
template <>
std::optional<session::FoundResponse> PageJoiner<session::FoundResponse>::add(messages::ResponseFound::Reader page) {
  broken_ = broken_ || page.getPage().getIndex() != next_++;
  if (broken_) return std::nullopt;
  if (page.getPage().getIndex() == 0) {
    response_.model = to_string(page.getModel());
    response_.template_id = decode(page.getTemplateId());
    response_.prompt_tokens = page.getPromptTokens();
  }
  read_part(response_, page);
  if (next_ < page.getPage().getCount()) return std::nullopt;
  return std::move(response_);
}

template <>
template <>
std::optional<session::StoredResponse> PageJoiner<session::StoredResponse>::add(messages::StoreResponse::Reader page) {
  broken_ = broken_ || page.getPage().getIndex() != next_++;
  if (broken_) return std::nullopt;
  if (page.getPage().getIndex() == 0) {
    response_.id = to_string(page.getId());
    response_.parent = to_string(page.getParent());
    response_.owner = decode(page.getOwner());
    response_.retention = static_cast<session::Retention>(page.getRetention());
    response_.connection = page.getConnection();
    response_.lane = to_string(page.getLane());
    response_.ttl = std::chrono::seconds(page.getTtlSeconds());
    response_.model = to_string(page.getModel());
    response_.template_id = decode(page.getTemplateId());
    response_.key_domain = decode(page.getKeyDomain());
    response_.inherited = page.getInherited();
    response_.prompt_tokens = page.getPromptTokens();
  }
  read_part(response_, page);
  if (next_ < page.getPage().getCount()) return std::nullopt;
  return std::move(response_);
}

}  // namespace troupe::actors::wire
