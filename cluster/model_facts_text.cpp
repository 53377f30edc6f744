// ModelFacts for people, and as JSON. What stands in the file is untrusted: control characters do not reach the terminal.
#include "cluster/model_facts.h"
#include "cluster/printable.h"

#include <nlohmann/json.hpp>

#include <cstdio>

namespace troupe::cluster {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxShown = 100;  // bytes of a text of the file

std::string shown(std::string_view text) { return printable(text.substr(0, kMaxShown)) + (text.size() > kMaxShown ? "..." : ""); }

std::string size_text(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
  char text[40];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text;
}

void line(std::string& out, const char* name, const std::string& value) {
  char head[40];
  std::snprintf(head, sizeof head, "%-14s", name);
  out += head + value + "\n";
}

}  // namespace

std::string facts_text(const ModelFacts& facts) {
  std::string out;
  line(out, "file", shown(facts.path) + ", " + size_text(facts.file_bytes));
  if (!facts.name.empty()) line(out, "name", shown(facts.name));
  line(out, "architecture", facts.architecture.empty() ? "(not said)" : shown(facts.architecture));
  line(out, "parameters",
       std::to_string(facts.parameters) + " in " + std::to_string(facts.tensors) + " tensors, " + size_text(facts.weight_bytes));
  if (facts.config) {
    const model::ModelConfig& c = *facts.config;
    line(out, "context", std::to_string(c.context) + " tokens");
    line(out, "shape",
         std::to_string(c.layers) + " layers, hidden " + std::to_string(c.hidden) + ", " + std::to_string(c.q_heads) + " heads of " +
             std::to_string(c.head_dim) + " (" + std::to_string(c.kv_heads) + " for keys and values), MLP " + std::to_string(c.ffn) +
             (c.tied_embeddings ? ", output tied to the embeddings" : ""));
  }
  for (const auto& one : facts.classes) {
    std::string formats;
    for (const auto& format : one.formats)
      formats += (formats.empty() ? "" : ", ") + format.name + " " + size_text(format.bytes) + " (" + std::to_string(format.tensors) +
                 (format.tensors == 1 ? " tensor)" : " tensors)");
    line(out, one.name.c_str(), formats);
  }
  if (facts.vocabulary) {
    const auto& v = *facts.vocabulary;
    line(out, "tokenizer",
         shown(v.kind) + ", rule " + shown(v.pre) + ", " + std::to_string(v.tokens) + " tokens, " + std::to_string(v.merges) + " merges");
    std::string ends;
    for (const std::string& end : v.ends) ends += (ends.empty() ? "" : " ") + shown(end);
    line(out, "special", "first " + (v.bos.empty() ? "(none)" : shown(v.bos)) + ", ends of an answer " + (ends.empty() ? "(none)" : ends));
    line(out, "template", v.chat_template);
  }
  for (const auto& kv : facts.kv)
    line(out, ("K/V " + kv.format).c_str(),
         size_text(kv.bytes_a_token) + " a token, " + size_text(kv.bytes_a_context) + " for a whole context");
  if (facts.problems.empty()) line(out, "can be served", "yes; about " + size_text(facts.weight_bytes) + " for weights, and K/V");
  for (const std::string& problem : facts.problems) line(out, "problem", printable(problem));
  return out;
}

std::string facts_json(const ModelFacts& facts) {
  Json out = {{"path", facts.path},
              {"name", facts.name},
              {"architecture", facts.architecture},
              {"file_bytes", facts.file_bytes},
              {"parameters", facts.parameters},
              {"tensors", facts.tensors},
              {"weight_bytes", facts.weight_bytes}};
  if (facts.config) {
    const model::ModelConfig& c = *facts.config;
    out["context"] = c.context;
    out["shape"] = {{"layers", c.layers},     {"hidden", c.hidden}, {"heads", c.q_heads},         {"kv_heads", c.kv_heads},
                    {"head_dim", c.head_dim}, {"mlp", c.ffn},       {"vocabulary", c.vocabulary}, {"tied_embeddings", c.tied_embeddings}};
  }
  out["formats"] = Json::object();
  for (const auto& one : facts.classes)
    for (const auto& format : one.formats)
      out["formats"][one.name][format.name] = {{"tensors", format.tensors}, {"parameters", format.parameters}, {"bytes", format.bytes}};
  if (facts.vocabulary) {
    const auto& v = *facts.vocabulary;
    out["tokenizer"] = {{"kind", v.kind}, {"pre", v.pre}, {"tokens", v.tokens},          {"merges", v.merges},
                        {"bos", v.bos},   {"eos", v.eos}, {"ends_of_generation", v.ends}};
    out["chat_template"] = v.chat_template;
  }
  for (const auto& kv : facts.kv) out["kv"][kv.format] = {{"bytes_a_token", kv.bytes_a_token}, {"bytes_a_context", kv.bytes_a_context}};
  out["servable"] = facts.problems.empty();
  out["problems"] = facts.problems;
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace troupe::cluster
