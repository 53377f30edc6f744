// See served_model.h.
#include "cluster/served_model.h"
#include "messages/error_reasons.h"
#include "runtime/base/log.h"
#include "runtime/base/phase_clock.h"
#include "runtime/model/model.h"
#include "runtime/weights/gguf_file.h"

#include <filesystem>

namespace troupe::cluster {
namespace {

std::string token_text(const text::Tokenizer& tokenizer, std::optional<TokenId> id) {
  return id ? std::string(tokenizer.bytes(*id)) : std::string();
}

}  // namespace

Result<ServedModel> open_served_model(const std::string& path, const std::string& name, const base::CacheFolder& cache) {
  if (path.empty())
    return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig,
                      "no model is named; give the path of a GGUF file, for example: troupe serve model.gguf", "model");
  base::PhaseClock clock;
  auto file = weights::GgufFile::open(path);
  if (!file) return file.error();
  auto config = model::read_config(**file);
  if (!config) return config.error();
  clock.mark("open");
  auto vocabulary = weights::read_vocabulary(**file);
  if (!vocabulary) return vocabulary.error();
  auto tokenizer = text::Tokenizer::make(std::move(*vocabulary));
  if (!tokenizer) return tokenizer.error();
  clock.mark("tokenizer");
  auto chat_template =
      text::ChatTemplate::compile((*file)->text("tokenizer.chat_template").value_or(""), token_text(**tokenizer, (*tokenizer)->bos()),
                                  token_text(**tokenizer, (*tokenizer)->eos()));
  if (!chat_template) {
    Error error = chat_template.error();
    error.client_text = path + ": " + error.client_text;
    return error;
  }
  clock.mark("template");
  const auto content = weights::content_of((*file)->disk_file(), std::nullopt, cache);
  if (!content) return content.error();
  clock.mark("content");
  base::log(base::LogLevel::kDebug, "model_opened", clock.fields());
  ServedModel served;
  served.path = path;
  served.name = name.empty() ? std::filesystem::path(path).stem().string() : name;
  served.content = *content;
  served.file_bytes = (*file)->size_bytes();
  served.context_tokens = static_cast<std::uint32_t>(config->context);
  served.tokenizer = *tokenizer;
  served.chat_template = *chat_template;
  return served;
}

}  // namespace troupe::cluster
