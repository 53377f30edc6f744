// MergeTable: byte-pair merging inside one word. Immutable after construction; any thread.
// Source: Sennrich, Haddow, Birch, "Neural machine translation of rare words with subword units", ACL 2016, section 3.2.
#pragma once
#include "messages/ids.h"

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace troupe::text {

class MergeTable {
 public:
  void reserve(std::size_t merges) { merges_.reserve(merges); }
  /// Merges are added in rank order, best first; a pair that is there already keeps its rank.
  void add(TokenId left, TokenId right, TokenId merged);
  /// Replaces `symbols` by what is left when no pair of neighbours can merge: always the best rank first, leftmost first among
  /// equals. O(n log n) for n symbols.
  void merge(std::vector<TokenId>& symbols) const;

 private:
  struct Merge {
    std::uint32_t rank;
    TokenId merged;
  };
  struct PairHash {
    std::size_t operator()(std::uint64_t pair) const { return static_cast<std::size_t>((pair * 0x9e3779b97f4a7c15U) >> 20); }
  };
  const Merge* find(TokenId left, TokenId right) const;

  std::unordered_map<std::uint64_t, Merge, PairHash> merges_;
};

}  // namespace troupe::text
