// The grammar of RFC 9112 and RFC 9110 that a request must keep, as pure checks over whole lines. No state, any thread.
// Each check returns 0 or the HTTP status of the refusal, and then sets `why` to a short static text.
#pragma once
#include "gateway/http_request.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace troupe::gateway::http {

bool token_char(unsigned char c);                                  // RFC 9110 section 5.6.2
bool equal_ignoring_case(std::string_view a, std::string_view b);  // ASCII
std::string_view trim(std::string_view text);                      // blanks and TABs at both ends
const char* reason_phrase(int status);

/// Lines come without their CRLF. `max_target` in bytes.
int check_request_line(std::string_view line, std::size_t max_target, const char** why);
int check_header_line(std::string_view line, const char** why);
/// Host, Content-Length and Transfer-Encoding together: the framing of the body.
int check_fields(const HttpRequest& request, bool* chunked, std::uint64_t* length, const char** why);
/// size [";" extension], at most 15 hexadecimal digits, no blank before ";".
int check_chunk_line(std::string_view line);

}  // namespace troupe::gateway::http
