#include "actors/block_event_source.h"

#include "actors/wire/cache.h"

#include <algorithm>

namespace troupe::actors {

void BlockEventSource::add(Tier tier, std::vector<kv::BlockChange> changes) {
  for (kv::BlockChange& change : changes) {
    change.tier = tier;
    log_.add(change);
  }
}

BlockEventSource::Answers BlockEventSource::read(const caf::actor& asker, const kv::ReadBlockEvents& wanted) {
  std::erase_if(waiting_, [&](const Read& read) { return read.asker == asker && read.wanted.reader == wanted.reader; });
  const Read read{asker, wanted};
  const auto behind = wanted.incarnation == incarnation_ ? log_.after(wanted.after, kPage) : std::nullopt;
  Answers answers;
  if (!behind || behind->size() == kPage) {
    answer(read, answers);
    return answers;
  }
  if (waiting_.size() == kMostWaiting) waiting_.pop_front();  // asks again, if it is still there
  waiting_.push_back(read);
  return answers;
}

bool BlockEventSource::due() const {
  return std::any_of(waiting_.begin(), waiting_.end(), [this](const Read& read) { return read.wanted.after != log_.last(); });
}

BlockEventSource::Answers BlockEventSource::answer_waiting() {
  Answers answers;
  std::erase_if(waiting_, [&](const Read& read) {
    if (read.wanted.after == log_.last()) return false;
    answer(read, answers);
    return true;
  });
  return answers;
}

void BlockEventSource::answer(const Read& read, Answers& answers) const {
  if (read.wanted.incarnation == incarnation_)
    if (auto behind = log_.after(read.wanted.after, kPage)) {
      auto page = page_for(read, std::move(*behind));
      page.first = read.wanted.after + 1;
      answers.emplace_back(read.asker, wire::encode(page));
      return;
    }
  const auto all = log_.snapshot();
  std::size_t sent = 0;
  do {
    const std::size_t end = std::min(all.size(), sent + kPage);
    auto page = page_for(read, {all.begin() + static_cast<std::ptrdiff_t>(sent), all.begin() + static_cast<std::ptrdiff_t>(end)});
    page.first = log_.last();
    page.snapshot = true;
    page.cleared = sent == 0;
    page.more = end < all.size();
    answers.emplace_back(read.asker, wire::encode(page));
    sent = end;
  } while (sent < all.size());
}

kv::BlockEvents BlockEventSource::page_for(const Read& read, std::vector<kv::BlockChange> changes) const {
  kv::BlockEvents page;
  page.replica = replica_;
  page.incarnation = incarnation_;
  page.query = read.wanted.query;
  page.changes = std::move(changes);
  if (!read.wanted.tokens) return page;
  for (const kv::BlockChange& change : page.changes) {
    const auto tokens = change.kind == kv::BlockChange::Kind::kStored ? tokens_of_(change.key) : std::span<const TokenId>();
    page.tokens.emplace_back(tokens.begin(), tokens.end());
  }
  return page;
}

}  // namespace troupe::actors
