// POST /tokenize, /detokenize, /apply-template and input_tokens of chat and responses: a session does the work, slice by slice; the loop
// only writes down what it found.
#include "gateway/tokenize_request.h"

#include "gateway/answer_json.h"
#include "gateway/endpoints/endpoints.h"
#include "gateway/error_body.h"
#include "gateway/responses_request.h"
#include "gateway/service.h"
#include "runtime/text/utf8.h"

namespace troupe::gateway::endpoints {
namespace {

/// What is told of the tokens, as JSON text.
using Report = std::string (*)(const TokenizeRequest&, messages::RequestFinished::Reader, std::uint32_t context);

class TokenizeAnswer final : public Exchange, public EngineSink {
 public:
  TokenizeAnswer(Service& service, Connection& connection, TokenizeRequest request, Report report)
      : service_(service),
        connection_(connection),
        request_(std::move(request)),
        report_(report),
        call_(service.live(), request_.engine, *this) {}

  void hung_up() override { call_.cancel_silently(); }
  void cut_short() override {
    call_.cancel_silently();
    service_.answer_error(connection_, cut_by_drain());
  }
  void admitted(messages::RequestAdmitted::Reader) override {}
  void delta(messages::TokenDelta::Reader) override {}
  void finished(messages::RequestFinished::Reader message) override {
    call_.ended();
    auto outcome = message.getOutcome();
    if (outcome.isError()) return service_.answer_error(connection_, from_wire(outcome.getError()));
    if (!outcome.isTokens()) return service_.answer_error(connection_, internal_error());
    connection_.respond(200, "application/json", report_(request_, message, service_.context_tokens(request_.engine.model)));
  }

 private:
  Service& service_;
  Connection& connection_;
  TokenizeRequest request_;
  Report report_;
  EngineCall call_;
};

/// llama.cpp's piece: the text of a token, or its bytes where they are no whole characters.
void append_piece(std::string& out, std::string_view bytes) {
  if (text::to_valid_utf8(bytes) == bytes) return append_json_string(out, bytes);
  out += '[';
  for (unsigned char byte : bytes) out += (out.back() == '[' ? "" : ",") + std::to_string(byte);
  out += ']';
}

std::string report_tokens(const TokenizeRequest& request, messages::RequestFinished::Reader message, std::uint32_t context) {
  auto tokens = message.getOutcome().getTokens();
  auto texts = message.getTokenTexts();
  std::string list, strings;
  for (unsigned i = 0; i < tokens.size(); i++) {
    if (i > 0) list += ',';
    auto bytes = i < texts.size() ? bytes_of(texts[i]) : std::string_view();
    if (request.with_pieces) {
      list += "{\"id\":" + std::to_string(tokens[i]) + ",\"piece\":";
      append_piece(list, bytes);
      list += '}';
    } else {
      list += std::to_string(tokens[i]);
    }
    if (!request.with_strings) continue;
    if (i > 0) strings += ',';
    append_json_string(strings, token_name(bytes));
  }
  std::string out =
      "{\"tokens\":[" + list + "],\"count\":" + std::to_string(tokens.size()) + ",\"max_model_len\":" + std::to_string(context);
  if (request.with_strings) out += ",\"token_strs\":[" + strings + "]";
  return out + "}";
}

std::string text_of_message(messages::RequestFinished::Reader message) {
  std::string text;
  append_json_string(text, text::to_valid_utf8(bytes_of(message.getText())));
  return text;
}

/// `content` is llama.cpp's name, `prompt` vLLM's.
std::string report_text(const TokenizeRequest&, messages::RequestFinished::Reader message, std::uint32_t) {
  auto text = text_of_message(message);
  return "{\"content\":" + text + ",\"prompt\":" + text + "}";
}

std::string report_prompt(const TokenizeRequest&, messages::RequestFinished::Reader message, std::uint32_t) {
  return "{\"prompt\":" + text_of_message(message) + "}";
}

std::string count_text(std::string_view object, messages::RequestFinished::Reader message) {
  return to_text({{"object", object}, {"input_tokens", message.getPromptTokens()}});
}

std::string report_chat_count(const TokenizeRequest&, messages::RequestFinished::Reader message, std::uint32_t) {
  return count_text("chat.completion.input_tokens", message);
}

std::string report_response_count(const TokenizeRequest&, messages::RequestFinished::Reader message, std::uint32_t) {
  return count_text("response.input_tokens", message);
}

Result<TokenizeRequest> parse_response_input(const JsonBody& body, const Limits& limits) {
  auto engine = parse_input_tokens_request(body, limits);
  if (!engine.ok()) return engine.error();
  return TokenizeRequest{.engine = std::move(*engine)};
}

using Parse = Result<TokenizeRequest> (*)(const JsonBody&, const Limits&);

void answer(Service& service, Connection& connection, const HttpRequest& request, const Caller& caller, Parse parse, Report report) {
  auto parsed = service.parse(connection, request, parse);
  if (!parsed) return;
  if (auto error = service.prepare(parsed->engine, caller, connection.id())) return service.answer_error(connection, *error);
  connection.hold(std::make_unique<TokenizeAnswer>(service, connection, std::move(*parsed), report));
}

}  // namespace

void tokenize(Service& service, Connection& connection, HttpRequest&& request, const Caller& caller) {
  answer(service, connection, request, caller, parse_tokenize_request, report_tokens);
}

void detokenize(Service& service, Connection& connection, HttpRequest&& request, const Caller& caller) {
  answer(service, connection, request, caller, parse_detokenize_request, report_text);
}

void apply_template(Service& service, Connection& connection, HttpRequest&& request, const Caller& caller) {
  answer(service, connection, request, caller, parse_template_request, report_prompt);
}

void count_chat_input(Service& service, Connection& connection, HttpRequest&& request, const Caller& caller) {
  answer(service, connection, request, caller, parse_count_request, report_chat_count);
}

void count_response_input(Service& service, Connection& connection, HttpRequest&& request, const Caller& caller) {
  answer(service, connection, request, caller, parse_response_input, report_response_count);
}

}  // namespace troupe::gateway::endpoints
