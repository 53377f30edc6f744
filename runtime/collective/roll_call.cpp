#include "runtime/collective/roll_call.h"

#include "messages/error_reasons.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace troupe::collective {
namespace {
constexpr char kMagic[8] = {'t', 'r', 'o', 'u', 'p', 'e', '0', '1'};  // with the version of this exchange

struct Head {  // then the token
  char magic[8];
  std::uint32_t epoch, rank, ranks, token_bytes;
};
static_assert(sizeof(Head) + RollCall::kTokenBytes <= RollCall::kHelloBytes);

Error refused(std::string what) {
  return make_error(ErrorClass::kForbidden, ErrorReason::kPeerRefused, "a peer on the data plane was refused: " + std::move(what));
}
}  // namespace

RollCall::RollCall(const Meeting& meeting) : meeting_(meeting), here_(meeting.addresses.size()), missing_(meeting.addresses.size() - 1) {
  TROUPE_CHECK(meeting.rank < meeting.addresses.size());
  TROUPE_CHECK(meeting.token.size() <= kTokenBytes);
  here_[meeting.rank] = true;
  Head head{};
  std::memcpy(head.magic, kMagic, sizeof kMagic);
  head.epoch = meeting.epoch.value;
  head.rank = static_cast<std::uint32_t>(meeting.rank);
  head.ranks = static_cast<std::uint32_t>(meeting.addresses.size());
  head.token_bytes = static_cast<std::uint32_t>(meeting.token.size());
  hello_.assign(reinterpret_cast<const char*>(&head), sizeof head);
  hello_ += meeting.token;
}

Status RollCall::answer(std::span<const std::byte> bytes) {
  Head head{};
  if (bytes.size() < sizeof head) return refused("its hello has " + std::to_string(bytes.size()) + " bytes");
  std::memcpy(&head, bytes.data(), sizeof head);
  if (std::memcmp(head.magic, kMagic, sizeof kMagic) != 0) return refused("it is another program, or another version of this one");
  const std::string who = "rank " + std::to_string(head.rank) + " ";
  if (head.epoch != meeting_.epoch.value)
    return refused(who + "is in epoch " + std::to_string(head.epoch) + ", not " + std::to_string(meeting_.epoch.value));
  const std::span<const std::byte> token = bytes.subspan(sizeof head);
  if (head.token_bytes != token.size() || token.size() != meeting_.token.size() ||
      std::memcmp(token.data(), meeting_.token.data(), token.size()) != 0)
    return refused(who + "shows another token");
  if (head.ranks != here_.size())
    return refused(who + "is of a group of " + std::to_string(head.ranks) + " ranks, not " + std::to_string(here_.size()));
  if (head.rank >= here_.size()) return refused(who + "in a group of " + std::to_string(here_.size()) + " ranks");
  if (here_[head.rank]) return refused(who + "was here already");
  here_[head.rank] = true;
  --missing_;
  return ok_status();
}

std::size_t RollCall::missing_rank() const {
  return static_cast<std::size_t>(std::find(here_.begin(), here_.end(), false) - here_.begin());
}

Error meeting_aborted(const RollCall& call) {
  return make_error(ErrorClass::kCancelled, ErrorReason::kCancelled,
                    call.complete() ? "the ranks' meeting was given up"
                                    : "the ranks' meeting was given up while rank " + std::to_string(call.missing_rank()) + " was missing");
}

Error peer_gone(std::size_t rank) {
  return make_error(ErrorClass::kGroupLost, ErrorReason::kGroupLost, "rank " + std::to_string(rank) + " was gone before the ranks had met");
}

}  // namespace troupe::collective
