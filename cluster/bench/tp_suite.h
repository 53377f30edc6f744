// The suite `tp`: time to the first token of long prompts, and speed of decoding, on two ranks that share each layer over a slow link:
// {bf16, int8} on the wire x {plain, overlapped (ISO)}, each a server of its own started by `troupe launch`; all are up, one works at a
// time. Rounds, one request of each, so that noise hits all alike. The link's rate is such that int8 rows travel as long as one core
// computes, unless one is given. Settings (notes in docs/benchmarks.md):
//   A  2048 wide, 6 layers     B  SmolLM2-135M's shape, or MODEL     C  4096 wide, 6 layers     D  A at 10 Gbit/s, codec and overlap chosen
// Main thread. Invariant: link, servers and files are gone when this is gone.
#pragma once
#include "cluster/bench/random_model.h"
#include "cluster/bench/shaped_link.h"
#include "cluster/bench/tp_server.h"
#include "cluster/bench/turns.h"
#include "cluster/bench/wire_trace.h"
#include "cluster/options.h"

#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::cluster::bench {

struct TpSetting {
  std::string_view name;
  ModelShape shape;
  std::uint32_t prompt_tokens;
  double megabits = 0;  // 0: as measured
};
/// One of A, B, C, D: the option table has checked it.
const TpSetting& tp_setting(std::string_view name);

/// Of one server.
struct TpFigure {
  std::vector<double> ttft_s, decode_tok_s;  // of each round
  std::vector<double> wire_s, exposed_s;     // of a prompt: a reduce was under way; nothing was computed since bytes were missing
  double overlapped_steps = 0;               // of all rounds
};
struct TpFigures {
  std::string setting, model, cpu;
  std::uint32_t prompt_tokens = 0, rounds = 0;
  double megabits = 0;
  double compute_s = 0, wire_s = 0;           // of the prompt with int8 and no overlap, from the trace
  double iso_bound_s = 0;                     // 0: there is no trace
  double idle_share = 0;                      // of rank 0's core in a prefill of int8_iso
  std::string chosen_codec;                   // by "auto", in D
  std::map<std::string, TpFigure> by_server;  // bf16_plain, bf16_iso, int8_plain, int8_iso; auto in D
};

class TpSuite {
 public:
  TpSuite(const Options& options, ProgressBar& bar, const std::atomic<bool>& stop);
  ~TpSuite();
  Status measure();
  const TpFigures& figures() const { return figures_; }

 private:
  struct Prefill {  // one measured prompt
    double begin = 0, end = 0;
    double wire = 0, exposed = 0;  // as in TpFigure
    double ttft() const { return end - begin; }
  };
  Status prepare();
  Status start(const std::string& key);
  Status calibrate();
  Result<Prefill> first_token(const std::string& key);
  Status decode(const std::string& key);
  Status rounds();
  Status evaluate();
  Status write_pictures();
  std::vector<TokenId> prompt(std::uint32_t tokens);
  void show(double done, const std::string& what) { bar_.show(done, "tp: " + what); }

  const Options& options_;
  const TpSetting& setting_;
  ModelShape shape_;  // of what is measured: the setting's, or MODEL's
  ProgressBar& bar_;
  const std::atomic<bool>& stop_;
  TpFigures figures_;
  std::mt19937_64 random_;
  std::uint32_t first_id_ = kFirstPlainToken, ids_ = kPlainTokens;
  std::filesystem::path folder_, model_;
  std::unique_ptr<ShapedLink> link_;
  std::map<std::string, std::unique_ptr<TpServer>> servers_;
  std::map<std::string, std::vector<Prefill>> prefills_;
  std::map<std::string, StepSpans> traces_;  // of int8, plain and ISO
};

std::string tp_table(const TpFigures& figures);
std::string tp_json(const TpFigures& figures);

}  // namespace troupe::cluster::bench
