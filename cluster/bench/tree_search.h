// TreeSearch: the requests of a Monte Carlo tree search without a model's judgement: many expansions under way at once, each of which
// draws children of a node by `n` and has every child judged by a call of one token; the search jumps between branches, back to old nodes
// too. Values are random from the seed, so that the shape of the search depends on no model's wit; children are what the model wrote.
// One thread. Source: Kocsis, Szepesvari, Bandit based Monte-Carlo planning (2006); virtual losses keep several branches live.
#pragma once
#include "cluster/bench/load_client.h"

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace troupe::cluster::bench {

struct TreeShape {
  std::uint32_t branches = 16;  // expansions under way at once
  std::uint32_t depth = 6, children = 4, expansions = 48, step_tokens = 20;
};

class TreeSearch {
 public:
  TreeSearch(LoadClient& client, TreeShape shape, std::string root, std::uint64_t seed, const std::atomic<bool>& stop);
  /// All calls, as they ended: expansions * (1 + children) of them where the server draws `n`, unless the tree has no open node left.
  /// `stop` ends it early.
  std::vector<CallResult> run();
  /// False: the server knows no `n`, and each child took a call.
  bool took_n() const { return takes_n_; }

 private:
  struct Node {
    Node* parent = nullptr;
    std::string text;  // from the root to here
    std::uint32_t depth = 0, visits = 0, pending = 0;
    double total = 0;
    bool closed = false;
    std::vector<Node*> children;
  };
  struct Expansion;
  double worth(const Node& node) const;
  Node* select();
  void start_more();
  void draw(const std::shared_ptr<Expansion>& expansion, std::uint32_t choices);
  void judge(const std::shared_ptr<Expansion>& expansion);
  void back_up(Node* node, double reward);

  LoadClient& client_;
  TreeShape shape_;
  const std::atomic<bool>& stop_;
  std::mt19937_64 dice_;
  std::deque<Node> nodes_;  // the root is the first; they stay where they are
  std::vector<CallResult> results_;
  std::uint32_t started_ = 0, live_ = 0;
  std::uint64_t next_seed_;
  bool takes_n_ = true;
};

}  // namespace troupe::cluster::bench
