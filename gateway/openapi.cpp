// See openapi.h.
#include "gateway/openapi.h"

#include "gateway/api_schemas.h"
#include "gateway/error_body.h"
#include "runtime/base/version.h"

#include <algorithm>
#include <array>

namespace troupe::gateway {
namespace {

using nlohmann::json;

json reference(std::string_view name) { return {{"$ref", "#/components/schemas/" + std::string(name)}}; }

/// Every field but those that are needed may be null, which reads as absent.
json with_null(json schema) {
  if (auto type = schema.find("type"); type != schema.end() && type->is_string()) {
    *type = {*type, "null"};
    return schema;
  }
  if (auto choices = schema.find("anyOf"); choices != schema.end()) {
    choices->push_back({{"type", "null"}});
    return schema;
  }
  if (auto values = schema.find("enum"); values != schema.end()) values->push_back(nullptr);
  return schema;
}

json body_schema(const RequestSchema& request, const Limits& limits) {
  json properties = json::object();
  for (const auto& field : request.fields) {
    auto lists = [&](const std::vector<std::string_view>& names) {
      return std::find(names.begin(), names.end(), name_of(field)) != names.end();
    };
    bool needed = lists(request.required) || lists(request.one_needed);
    auto schema = schema_of(field, limits);
    if (!needed) schema = with_null(std::move(schema));
    schema["description"] = help_of(field);
    properties[std::string(name_of(field))] = std::move(schema);
  }
  json out = {{"type", "object"}, {"properties", std::move(properties)}};
  if (!request.required.empty()) out["required"] = request.required;
  for (const auto& name : request.one_needed) out["anyOf"].push_back({{"required", {name}}});
  return out;
}

bool is_media_type(std::string_view answer) { return answer.find('/') != answer.npos; }

json good_answer(const Route& route) {
  json content;
  if (is_media_type(route.response))
    content[std::string(route.response)] = {{"schema", {{"type", "string"}}}};
  else
    content["application/json"] = {{"schema", reference(route.response)}};
  if (route.streams) content["text/event-stream"] = {{"schema", json::object()}};  // `data` is JSON, then [DONE]: nothing a schema can say
  return {{"description", "the answer"}, {"content", content}};
}

struct Status {
  int code;
  std::string_view why;
};
constexpr Status kAlways[] = {
    {400, "not HTTP, not JSON, or a field that is wrong or not supported; `param` names it"},
    {403, "a foreign Origin or Host, or a key that is good for less"},
    {404, "no such model, response or URL"},
    {408, "the request came too slowly"},
    {413, "the body is too large"},
    {414, "the URL is too long"},
    {431, "the head is too large"},
    {500, "the request failed inside the server"},
    {501, "a method or transfer coding that is not known"},
    {503, "loading, restarting or shutting down; Retry-After says when to try again"},
};
constexpr Status kWithKey[] = {{401, "no API key, or a wrong one"}};
constexpr Status kWithBody[] = {{429, "too many requests; Retry-After says when to try again"}, {504, "the request's deadline has passed"}};

json parameters(const Route& route, const Limits& limits) {
  json out = json::array();
  if (openapi_path(route).find("{id}") != std::string::npos)
    out.push_back({{"name", "id"}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}, {"minLength", 1}}}});
  for (const auto& field : route.query)
    out.push_back({{"name", name_of(field)}, {"in", "query"}, {"description", help_of(field)}, {"schema", schema_of(field, limits)}});
  return out;
}

json operation(const Route& route, const Limits& limits) {
  json out = {{"summary", route.summary}, {"responses", json::object()}};
  auto& responses = out["responses"];
  responses["200"] = good_answer(route);
  auto add = [&](std::span<const Status> statuses) {
    for (const auto& status : statuses)
      responses[std::to_string(status.code)] = {{"description", status.why},
                                                {"content", {{"application/json", {{"schema", reference("Error")}}}}}};
  };
  add(kAlways);
  if (route.guard != Guard::kOpen) {
    add(kWithKey);
    out["security"] = {{{"key", json::array()}}};
    if (route.guard != Guard::kAdmin) out["security"].push_back(json::object());  // where no keys are set
  }
  if (route.method == "POST") add(kWithBody);
  if (auto list = parameters(route, limits); !list.empty()) out["parameters"] = std::move(list);
  if (!route.request.empty())
    out["requestBody"] = {{"required", true}, {"content", {{"application/json", {{"schema", reference(route.request)}}}}}};
  return out;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

}  // namespace

std::string openapi_path(const Route& route) {
  std::string path(route.path);
  if (path.back() == '*') path.replace(path.size() - 1, 1, "{id}");
  return path;
}

json openapi_document(const Limits& limits) {
  json schemas = response_schemas();
  for (const auto& request : request_schemas()) schemas[std::string(request.name)] = body_schema(request, limits);
  json paths = json::object();
  for (const auto& route : route_table()) paths[openapi_path(route)][lower(route.method)] = operation(route, limits);
  return {{"openapi", "3.1.0"},
          {"info",
           {{"title", "Troupe"},
            {"version", base::version()},
            {"description", "OpenAI's API as far as a text model can answer it, with fields of vLLM and llama.cpp"},
            {"license", {{"name", "Apache-2.0"}, {"identifier", "Apache-2.0"}}}}},
          {"paths", std::move(paths)},
          {"components", {{"schemas", std::move(schemas)}, {"securitySchemes", {{"key", {{"type", "http"}, {"scheme", "bearer"}}}}}}}};
}

}  // namespace troupe::gateway
