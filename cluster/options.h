// Options: everything a user can set, as one plain struct. Filled from the option table (option_table.h) by
// option_sources.h before any thread starts; read-only afterwards. Initialisers are the defaults.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace troupe::cluster {

/// Who set an option; a later one wins.
enum class OptionSource { kFile, kEnvironment, kCommandLine };

struct Options {
  // Model and arithmetic.
  std::string model;              // path of a GGUF file
  std::string served_model_name;  // empty: what the file says
  std::string weights = "file";
  std::string activations = "int8";
  std::string kv_format = "int8";
  std::uint64_t kv_memory = 0;   // bytes; 0: min(25 % of RAM, 16 full contexts)
  std::uint64_t host_cache = 0;  // bytes; 0: no such tier
  std::uint64_t disk_cache = 0;  // likewise; in the folder of cache_dir
  std::string isa;               // empty: the best
  std::uint64_t threads = 0;     // 0: cores of the process
  bool no_pin = false;
  std::string cache_dir = "auto";  // "auto": see cache_folder(); "none" or empty: no cache

  // Several ranks.
  std::uint64_t tensor_parallel = 1, pipeline_parallel = 1;
  std::string codec = "auto";     // row of the codec table, or "auto": measured, and then kept in cache_dir
  bool remeasure = false;         // ... anew
  std::string overlap = "auto";   // auto | off | always
  std::string transport = "ucx";  // row of the transport table
  std::string data_interface;     // of the network; empty: this host alone
  bool allow_default_route = false;
  std::string step_trace;  // path; one file a rank

  // Network.
  std::vector<std::string> hosts = {"127.0.0.1"};
  std::uint64_t port = 8080;
  std::string api_key_file;
  std::string admin_key_file;
  std::string system_prompts_file;
  bool metrics_open = false;
  std::string tls_cert, tls_key;
  std::uint64_t max_connections = 10000;
  std::uint64_t max_connections_per_address = 1000;
  std::uint64_t max_choices = 128;
  std::uint64_t max_body = 2 << 20;  // bytes, as the two below
  std::uint64_t max_head = 16 << 10;
  std::uint64_t max_output = 256 << 10;
  std::uint64_t max_json_depth = 64;
  std::uint64_t head_timeout_ms = 10000;
  std::uint64_t body_timeout_ms = 15000;
  std::uint64_t idle_timeout_ms = 30000;
  std::uint64_t slow_reader_ms = 30000;
  std::vector<std::string> allowed_origins;
  std::vector<std::string> allowed_hosts;

  // Scheduling.
  std::string policy = "fcfs";
  std::uint64_t max_sequences = 64;
  std::uint64_t max_queue = 256;
  std::uint64_t store_memory = 128 << 20;  // bytes
  std::uint64_t store_ttl_seconds = 3600;
  std::uint64_t token_budget = 512;
  std::uint64_t stall_budget_ms = 100;
  std::uint64_t watchdog_ms = 30000;

  // troupe launch.
  std::string cluster_file;
  bool check_only = false, list_keys = false;

  // Process.
  std::string config_file;
  std::map<std::string, OptionSource, std::less<>> sources;  // by name; absent: the default
  std::string log_level = "warning";
  std::string log_format = "text";
  bool access_log = false;
  std::uint64_t grace_seconds = 30;
  std::string fault;  // tests

  // troupe chat and troupe run.
  std::string url;
  std::string api_key;
  std::string system_prompt;
  std::string prompt;
  bool raw = false;
  std::uint64_t max_tokens = 0;  // 0: to the end of the context
  double temperature = 0.7;
  std::uint64_t seed = 0;

  // troupe bench.
  std::vector<std::string> suites;  // empty: all that need no clients; http with --url
  std::vector<std::string> prefill_tokens = {"512"};
  std::vector<std::string> batches = {"1", "4", "16", "32"};
  std::vector<std::string> context_tokens = {"128"};
  std::uint64_t decode_steps = 64;
  std::vector<std::string> product_rows = {"1", "4", "16", "64", "256"};
  std::uint64_t repetitions = 5;
  std::vector<std::string> scenarios = {"ttft", "unique", "shared", "multiturn", "newcomer"};
  std::vector<std::string> clients = {"8", "32"};
  std::uint64_t requests = 32;
  std::uint64_t prompt_tokens = 512;
  std::uint64_t system_tokens = 512;
  std::uint64_t answer_tokens = 64;
  std::uint64_t turns = 5;
  std::uint64_t streams = 4;
  std::uint64_t stream_tokens = 400;
  std::uint64_t newcomer_tokens = 2000;
  double settle_seconds = 1;
  bool ignore_eos = false;
  std::vector<std::string> cache_scenarios = {"turn", "shared", "multiturn", "mcts", "none"};  // and trace, where one is given
  std::string trace;                                                                           // path of a block trace
  std::uint64_t trace_tokens = 4096;
  std::uint64_t chat_tokens = 2000;
  std::uint64_t tree_root_tokens = 1000;
  std::uint64_t tree_branches = 16;
  std::uint64_t tree_depth = 6;
  std::uint64_t tree_children = 4;
  std::uint64_t tree_expansions = 48;
  std::string setting = "A";
  double link_rate = 0;   // Mbit/s; 0: as the setting says, or measured
  std::string picture;    // path
  std::string json_file;  // "-": standard output
  std::string html_file;
};

}  // namespace troupe::cluster
