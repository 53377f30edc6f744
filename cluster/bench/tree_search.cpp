// See tree_search.h.
#include "cluster/bench/tree_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace troupe::cluster::bench {
namespace {

constexpr double kExploration = 0.7, kTemperature = 0.9;
constexpr std::uint32_t kAlternatives = 5;  // log-probabilities that a judgement reads
constexpr int kBadRequest = 400;
constexpr const char* kQuestion = "\nQuestion: is this a good way? Answer yes or no:";

}  // namespace

struct TreeSearch::Expansion {
  Node* leaf = nullptr;
  std::vector<std::string> texts;
  std::uint32_t open = 0;  // calls
  double best = 0;
};

TreeSearch::TreeSearch(LoadClient& client, TreeShape shape, std::string root, std::uint64_t seed, const std::atomic<bool>& stop)
    : client_(client), shape_(shape), stop_(stop), dice_(seed), next_seed_(seed % 1'000'000 * 100'000) {
  nodes_.emplace_back().text = std::move(root);
}

std::vector<CallResult> TreeSearch::run() {
  start_more();
  client_.run();
  return std::move(results_);
}

/// Upper confidence bound; searches under way count as visits without reward.
double TreeSearch::worth(const Node& node) const {
  const double visits = node.visits + node.pending;
  if (visits == 0) return std::numeric_limits<double>::infinity();
  return node.total / visits + kExploration * std::sqrt(std::log(1.0 + node.parent->visits + node.parent->pending) / visits);
}

/// The most promising leaf that nobody expands at present.
TreeSearch::Node* TreeSearch::select() {
  Node* node = &nodes_.front();
  while (!node->children.empty()) {
    Node* best = nullptr;
    for (Node* child : node->children)
      if (!child->closed && (best == nullptr || worth(*child) > worth(*best))) best = child;
    if (best == nullptr) {
      node->closed = true;
      return nullptr;
    }
    node = best;
  }
  return node->closed || node->pending > 0 ? nullptr : node;
}

void TreeSearch::start_more() {
  while (live_ < shape_.branches && started_ < shape_.expansions && !stop_.load(std::memory_order_relaxed)) {
    Node* leaf = select();
    // A branch that has just been found to be closed hides others only until the next look.
    if (leaf == nullptr && live_ == 0 && !nodes_.front().closed) continue;
    if (leaf == nullptr) return;
    for (Node* node = leaf; node != nullptr; node = node->parent) ++node->pending;
    ++started_;
    ++live_;
    auto expansion = std::make_shared<Expansion>();
    expansion->leaf = leaf;
    if (takes_n_)
      draw(expansion, shape_.children);
    else
      for (std::uint32_t i = 0; i < shape_.children; ++i) draw(expansion, 1);
  }
}

/// One call for so many of the children; when none is left open they are judged.
void TreeSearch::draw(const std::shared_ptr<Expansion>& expansion, std::uint32_t choices) {
  ++expansion->open;
  next_seed_ += choices;
  CompletionCall call;
  call.prompt = expansion->leaf->text;
  call.max_tokens = shape_.step_tokens;
  call.choices = choices;
  call.temperature = kTemperature;
  call.seed = next_seed_;
  client_.start(call, [this, expansion, choices](CallResult&& result) {
    --expansion->open;
    const bool refused = result.status == kBadRequest && choices > 1;
    std::vector<std::string> texts = result.texts;
    // A server that does not know `n` says so, or draws one.
    const bool all = choices == 1 || std::any_of(texts.begin() + 1, texts.end(), [](const auto& text) { return !text.empty(); });
    const bool good = result.good();
    if (!refused) results_.push_back(std::move(result));
    if (refused || (good && !all)) {
      takes_n_ = false;
      texts.resize(refused ? 0 : 1);
      for (std::uint32_t i = static_cast<std::uint32_t>(texts.size()); i < choices; ++i) draw(expansion, 1);
    }
    if (good || !refused) std::move(texts.begin(), texts.end(), std::back_inserter(expansion->texts));
    if (expansion->open == 0) judge(expansion);
  });
}

void TreeSearch::judge(const std::shared_ptr<Expansion>& expansion) {
  if (stop_.load(std::memory_order_relaxed)) return;
  Node* leaf = expansion->leaf;
  for (const std::string& text : expansion->texts) {
    Node& child = nodes_.emplace_back();
    child.parent = leaf;
    child.text = leaf->text + text;
    child.depth = leaf->depth + 1;
    child.closed = child.depth >= shape_.depth;
    leaf->children.push_back(&child);
  }
  expansion->open = static_cast<std::uint32_t>(leaf->children.size());
  for (Node* child : leaf->children) {
    CompletionCall call;
    call.prompt = child->text + kQuestion;
    call.logprobs = kAlternatives;
    client_.start(call, [this, expansion, child](CallResult&& result) {
      results_.push_back(std::move(result));
      child->visits = 1;
      child->total = std::uniform_real_distribution<>(0, 1)(dice_);
      expansion->best = std::max(expansion->best, child->total);
      if (--expansion->open > 0) return;
      back_up(expansion->leaf, expansion->best);
      --live_;
      start_more();
    });
  }
}

void TreeSearch::back_up(Node* node, double reward) {
  for (; node != nullptr; node = node->parent) {
    ++node->visits;
    --node->pending;
    node->total += reward;
  }
}

}  // namespace troupe::cluster::bench
