// See attention_plan.h.
#include "kernels/cpu/attention_plan.h"

#include <algorithm>
#include <numeric>

namespace troupe::kernels::cpu {
namespace {

constexpr std::size_t kTilesToSplit = 64;  // fewer are not worth the meetings
constexpr std::size_t kPiecesOfShare = 2;  // a thread's share of shared rows is cut so, that one that is late can be helped

class Planner {
 public:
  Planner(std::span<const SequenceRows> sequences, std::size_t group, std::size_t kv_heads, std::size_t threads)
      : sequences_(sequences), group_(group), kv_heads_(kv_heads), threads_(threads) {
    for (const SequenceRows& s : sequences) {
      total_ += s.rows > 0 ? s.rows * tiles_of(s) : 0;
      count_ += s.rows > 0;
    }
  }

  AttentionPlan plan() {
    std::vector<bool> done(sequences_.size());
    share_prefixes();
    for (const SharedPiece& piece : plan_.shared)
      for (const PrefixMember& member : piece.members) done[static_cast<std::size_t>(member.sequence - sequences_.data())] = true;
    for (std::size_t i = 0; i < sequences_.size(); ++i)
      if (sequences_[i].rows > 0 && !done[i]) cut(sequences_[i]);
    std::stable_sort(plan_.shared.begin(), plan_.shared.end(), [](const auto& a, const auto& b) { return a.work > b.work; });
    std::stable_sort(plan_.pieces.begin(), plan_.pieces.end(), [](const auto& a, const auto& b) { return a.work() > b.work(); });
    return std::move(plan_);
  }

 private:
  bool is_decode(const SequenceRows& s) const { return s.rows == 1 && group_ <= kMaxAttentionRows; }
  bool is_long(const SequenceRows& s) const { return is_decode(s) && threads_ > 1 && tiles_of(s) * threads_ > total_; }

  void cut(const SequenceRows& s) {
    if (!is_decode(s)) return cut_chunk(s);
    // All heads of a block lie together: one thread walks them together unless others would stand idle.
    const bool whole_rows = count_ >= 4 * threads_ || count_ % threads_ == 0;
    const bool heads_balance = 10 * round_up(kv_heads_, threads_) <= 11 * kv_heads_;
    if (is_long(s) && !heads_balance && tiles_of(s) >= kTilesToSplit) {
      plan_.split.push_back({&s, 0, 1, 0, kv_heads_, 0, group_});
      return;
    }
    const std::size_t parts = whole_rows && !is_long(s) ? 1 : std::min(threads_, kv_heads_);
    for (std::size_t i = 0; i < parts; ++i) {
      const std::size_t from = kv_heads_ * i / parts, to = kv_heads_ * (i + 1) / parts;
      plan_.pieces.push_back({&s, 0, 1, from, to - from, 0, group_});
    }
  }
  void cut_chunk(const SequenceRows& s) {
    const std::size_t q_most = std::min<std::size_t>(group_, kMaxAttentionRows), positions = kMaxAttentionRows / q_most;
    for (std::size_t end = s.rows; end > 0;) {
      const std::size_t first = end > positions ? end - positions : 0;
      for (std::size_t head = 0; head < kv_heads_; ++head)
        for (std::size_t q = 0; q < group_; q += q_most)
          plan_.pieces.push_back({&s, first, end - first, head, 1, q, std::min(q_most, group_ - q)});
      end = first;
    }
  }

  /// Those whose rows fill half of a piece gain little, and a long row is better shared by all threads.
  void share_prefixes() {
    std::vector<const SequenceRows*> candidates;
    candidates.reserve(sequences_.size());
    for (const SequenceRows& s : sequences_)
      if (s.rows > 0 && s.rows * group_ <= kMaxAttentionRows / 2 && !is_long(s)) candidates.push_back(&s);
    if (candidates.size() < 2) return;
    plan_.members = shared_prefixes(candidates);
    const std::span<const PrefixMember> members = plan_.members;
    for (std::size_t i = 0, end = 0; i < members.size(); i = end) {
      for (end = i + 1; end < members.size() && members[end].common > 0;) ++end;
      cut_group(members.subspan(i, end - i));
    }
  }

  static std::size_t work_of(const PrefixMember& member) { return member.sequence->rows * tiles_of(*member.sequence); }

  /// Into as many parts as keep all threads busy, if those can have two members each.
  void cut_group(std::span<const PrefixMember> group) {
    std::size_t work = 0;
    for (const PrefixMember& member : group) work += work_of(member);
    const std::size_t head_parts = std::gcd(kv_heads_, threads_), shares = total_ * head_parts;
    const std::size_t least = (work * threads_ + shares - 1) / shares, most = group.size() / 2;
    if (least > most) return;
    const std::size_t finer = threads_ > 1 ? kPiecesOfShare : 1;
    const std::size_t parts = std::clamp((finer * work * threads_ + shares - 1) / shares, least, most);
    for (std::size_t i = 0, end = 0, done = 0; i < group.size(); i = end) {
      std::size_t rows = 0, own = 0;
      const std::size_t part = done * parts / work;  // ends where its share of the work is done, or its rows are full
      for (end = i; end < group.size() && rows + rows_of(group[end]) <= kMaxAttentionRows; ++end) {
        if (end > i && (done + own) * parts >= (part + 1) * work) break;
        rows += rows_of(group[end]);
        own += work_of(group[end]);
      }
      done += own;
      if (end - i > 1) add(group.subspan(i, end - i), rows, own, head_parts);
    }
  }
  std::size_t rows_of(const PrefixMember& member) const { return member.sequence->rows * group_; }
  void add(std::span<const PrefixMember> members, std::size_t rows, std::size_t tiles, std::size_t head_parts) {
    const std::size_t heads = kv_heads_ / head_parts;
    for (std::size_t head = 0; head < kv_heads_; head += heads) plan_.shared.push_back({members, head, heads, rows, tiles * heads});
  }

  std::span<const SequenceRows> sequences_;
  std::size_t group_, kv_heads_, threads_;
  std::size_t total_ = 0, count_ = 0;  // tiles that rows read; sequences with rows
  AttentionPlan plan_;
};

}  // namespace

AttentionPlan plan_attention(std::span<const SequenceRows> sequences, std::size_t group, std::size_t kv_heads, std::size_t threads) {
  return Planner(sequences, group, kv_heads, threads).plan();
}

}  // namespace troupe::kernels::cpu
