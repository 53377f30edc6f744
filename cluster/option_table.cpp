// The rows. See option_table.h.
#include "cluster/option_table.h"
#include "runtime/schedule/policy_table.h"

#include <algorithm>
#include <cctype>

namespace troupe::cluster {
namespace {

std::vector<std::string_view> policy_names() {
  std::vector<std::string_view> names;
  for (const schedule::PolicyRow& row : schedule::policy_table()) names.push_back(row.name);
  return names;
}

}  // namespace

std::span<const OptionRow> option_table() {
  static const std::vector<OptionRow> kRows = {
      {.name = "model",
       .unit = "path",
       .field = &Options::model,
       .help = "GGUF file to serve (architecture llama; F32, F16, BF16, Q8_0, Q4_0, Q4_1 or Q6_K)",
       .commands = kAll,
       .positional = true},
      {.name = "config",
       .unit = "path",
       .field = &Options::config_file,
       .help = "TOML file with any of these options as keys",
       .commands = kAll,
       .no_file = true},
      {.name = "host",
       .unit = "address",
       .field = &Options::host,
       .help = "Address to listen on; 0.0.0.0 or :: for all",
       .commands = kServe},
      {.name = "port",
       .unit = "number",
       .field = &Options::port,
       .maximum = 65535,
       .help = "TCP port to listen on; 0 takes a free one",
       .commands = kServe},
      {.name = "api-key-file",
       .unit = "path",
       .field = &Options::api_key_file,
       .help = "File with one API key a line; with it every route but the page, /health and /ready needs a key",
       .commands = kServe},
      {.name = "allowed-origin",
       .unit = "origin",
       .field = &Options::allowed_origins,
       .help = "Web origin that may call this server from a browser (repeatable), for example https://chat.example.org",
       .commands = kServe},
      {.name = "allowed-host",
       .unit = "name",
       .field = &Options::allowed_hosts,
       .help = "Name that a server on a loopback address may be called by besides localhost (repeatable), for example behind a proxy",
       .commands = kServe},
      {.name = "served-model-name",
       .unit = "text",
       .field = &Options::served_model_name,
       .help = "Name of the model in the API; empty: the name of the file"},
      {.name = "threads",
       .unit = "number",
       .field = &Options::threads,
       .maximum = 1024,
       .help = "Compute threads; 0: one a core of the process",
       .commands = kAll},
      {.name = "no-pin", .unit = "flag", .field = &Options::no_pin, .help = "Do not pin compute threads to cores", .commands = kAll},
      {.name = "isa",
       .unit = "text",
       .field = &Options::isa,
       .choices = {"", "ref", "avx2", "avx512_vnni"},
       .help = "Instruction set of the CPU kernels; empty: the best of this machine",
       .commands = kAll},
      {.name = "activations",
       .unit = "text",
       .field = &Options::activations,
       .choices = {"int8", "int8-token", "fp32"},
       .help = "Arithmetic of matrix products: int8 in groups of 32, int8 by token, or fp32",
       .commands = kAll},
      {.name = "kv-format",
       .unit = "text",
       .field = &Options::kv_format,
       .choices = {"int8", "fp16", "fp32"},
       .help = "Storage of keys and values",
       .commands = kAll,
       .short_name = "kv"},
      {.name = "kv-memory",
       .unit = "bytes",
       .field = &Options::kv_memory,
       .help = "Memory for keys and values, for example 512MiB or 2GiB; 0: the smaller of 25 % of RAM and 16 full contexts",
       .commands = kAll},
      {.name = "cache-dir",
       .unit = "path",
       .field = &Options::cache_dir,
       .help = "Folder for packed weights (16 GiB of those used last), so that the next start is quick; safe to delete. auto: "
               "$XDG_CACHE_HOME/troupe or ~/.cache/troupe; none: no cache",
       .commands = kAll},
      {.name = "policy",
       .unit = "text",
       .field = &Options::policy,
       .choices = policy_names(),
       .help = "Order of waiting requests and choice of the one to preempt"},
      {.name = "max-sequences",
       .unit = "number",
       .field = &Options::max_sequences,
       .minimum = 1,
       .maximum = 4096,
       .help = "Sequences decoded at the same time, at most"},
      {.name = "max-queue",
       .unit = "number",
       .field = &Options::max_queue,
       .minimum = 1,
       .maximum = 1000000,
       .help = "Requests that may wait; more are refused with 429"},
      {.name = "token-budget",
       .unit = "number",
       .field = &Options::token_budget,
       .minimum = 32,
       .maximum = 65536,
       .help = "Rows of one step, at most: one a running sequence, the rest for prefill chunks"},
      {.name = "stall-budget-ms",
       .unit = "ms",
       .field = &Options::stall_budget_ms,
       .minimum = 5,
       .maximum = 60000,
       .help = "Largest gap between two tokens of a running stream while others are prefilled"},
      {.name = "watchdog-ms",
       .unit = "ms",
       .field = &Options::watchdog_ms,
       .minimum = 50,
       .maximum = 3600000,
       .help = "A step that takes longer is aborted and its streams are resumed; one that ignores this as long again ends the process"},
      {.name = "grace-seconds",
       .unit = "s",
       .field = &Options::grace_seconds,
       .maximum = 86400,
       .help = "Time that running requests have to finish after SIGTERM or SIGINT; a second signal ends at once",
       .commands = kServe},
      {.name = "log-level",
       .unit = "text",
       .field = &Options::log_level,
       .choices = {"debug", "info", "warning", "error", "off"},
       .help = "What is logged to stderr; never prompts or answers",
       .commands = kAll},
      {.name = "fault",
       .unit = "text",
       .field = &Options::fault,
       .help = "Tests: throw:N, stall:N or hang:N in the shard's compute",
       .commands = kServe,
       .hidden = true},
      {.name = "url",
       .unit = "url",
       .field = &Options::url,
       .help = "Server to chat with, for example http://127.0.0.1:8080; empty: serve MODEL inside this process",
       .commands = kChat,
       .no_file = true},
      {.name = "api-key", .unit = "text", .field = &Options::api_key, .help = "Key for that server", .commands = kChat, .no_file = true},
      {.name = "system", .unit = "text", .field = &Options::system_prompt, .help = "System message", .commands = kChat, .no_file = true},
      {.name = "prompt",
       .unit = "text",
       .field = &Options::prompt,
       .help = "Ask this, print the answer and end; empty: a conversation",
       .commands = kChat,
       .no_file = true},
      {.name = "max-tokens",
       .unit = "number",
       .field = &Options::max_tokens,
       .maximum = 1 << 20,
       .help = "Tokens of an answer, at most; 0: to the end of the context",
       .commands = kChat,
       .no_file = true},
      {.name = "temperature",
       .unit = "number",
       .field = &Options::temperature,
       .maximum = 2,
       .help = "0: always the most likely token",
       .commands = kChat,
       .no_file = true},
      {.name = "seed",
       .unit = "number",
       .field = &Options::seed,
       .maximum = 9007199254740992.0,
       .help = "Seed of the answers; 0: a new one each time",
       .commands = kChat,
       .no_file = true},
      {.name = "prefill-tokens",
       .unit = "number",
       .field = &Options::prefill_tokens,
       .minimum = 1,
       .maximum = 65536,
       .help = "Rows of the prefill step",
       .commands = kBench,
       .no_file = true},
      {.name = "decode-steps",
       .unit = "number",
       .field = &Options::decode_steps,
       .minimum = 1,
       .maximum = 100000,
       .help = "Timed steps a batch size",
       .commands = kBench,
       .no_file = true},
      {.name = "context-tokens",
       .unit = "number",
       .field = &Options::context_tokens,
       .minimum = 1,
       .maximum = 1 << 20,
       .help = "Tokens that each sequence holds when decoding starts",
       .commands = kBench,
       .no_file = true},
      {.name = "batch",
       .unit = "number",
       .field = &Options::batches,
       .minimum = 1,
       .maximum = 4096,
       .help = "Sequences decoded together (repeatable)",
       .commands = kBench,
       .no_file = true},
      {.name = "repetitions",
       .unit = "number",
       .field = &Options::repetitions,
       .minimum = 1,
       .maximum = 1000,
       .help = "Runs of each measurement; best and median are shown",
       .commands = kBench,
       .no_file = true},
      {.name = "json", .unit = "flag", .field = &Options::json, .help = "Print JSON", .commands = kBench, .no_file = true},
  };
  return kRows;
}

const OptionRow* find_option(std::string_view name) {
  auto rows = option_table();
  auto row = std::find_if(rows.begin(), rows.end(),
                          [&](const OptionRow& r) { return r.name == name || (!r.short_name.empty() && r.short_name == name); });
  return row == rows.end() ? nullptr : &*row;
}

std::string_view command_name(CommandBits command) {
  switch (command) {
    case kServe: return "serve";
    case kChat: return "chat";
    default: return "bench";
  }
}

std::string environment_name(const OptionRow& row) {
  std::string name = "TROUPE_";
  for (char c : row.name) name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

std::string options_markdown() {
  std::string text =
      "# Options\n\n"
      "Made by `troupe options` from the table in [cluster/option_table.cpp](../cluster/option_table.cpp); a test compares the two.\n\n"
      "The command line wins over the environment, the environment over the file given by `--config`, the file over the default.\n"
      "A key of the file is the option's name: `kv-memory = \"2GiB\"`. An unknown option or key is an error.\n";
  const Options defaults;
  for (auto [command, title] :
       {std::pair{kServe, "troupe serve MODEL"}, std::pair{kChat, "troupe chat [MODEL]"}, std::pair{kBench, "troupe bench MODEL"}}) {
    text += std::string("\n## ") + title + "\n\n| option | environment | default | allowed | |\n|---|---|---|---|---|\n";
    for (const OptionRow& row : option_table()) {
      if (row.hidden || (row.commands & command) == 0) continue;
      std::string value = option_text(defaults, row);
      text += "| `" + (row.positional ? std::string("MODEL") : "--" + std::string(row.name)) + "` | `" + environment_name(row) + "` | " +
              (value.empty() ? "" : "`" + value + "`") + " | " + allowed_text(row) + " | " + std::string(row.help) + " |\n";
    }
  }
  return text;
}

}  // namespace troupe::cluster
