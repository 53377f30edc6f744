// Filters that order, group and count lists; rows of the filter table (filters_table.cpp). They know of every pair that cannot be ordered.
#pragma once
#include "runtime/text/jinja/interpreter.h"

namespace troupe::text::jinja {

/// sort(reverse=false, case_sensitive=false, attribute=none): stable; attributes "a,b" are keys one after the other.
Value sort(Interpreter& interpreter, const Value& input, const Arguments& arguments);
/// unique(case_sensitive=false, attribute=none): the first of each.
Value unique(Interpreter& interpreter, const Value& input, const Arguments& arguments);
/// dictsort(case_sensitive=false, by="key", reverse=false): pairs.
Value dictsort(Interpreter& interpreter, const Value& input, const Arguments& arguments);
/// groupby(attribute, default=none, case_sensitive=false): pairs of key and list, which also answer to .grouper and .list in Jinja; here
/// they are pairs only.
Value groupby(Interpreter& interpreter, const Value& input, const Arguments& arguments);
/// sum(attribute=none, start=0)
Value sum(Interpreter& interpreter, const Value& input, const Arguments& arguments);
/// batch(size, fill_with=none): lists of `size` elements.
Value batch(Interpreter& interpreter, const Value& input, const Arguments& arguments);
/// slice(count, fill_with=none): `count` lists of nearly the same size.
Value slice(Interpreter& interpreter, const Value& input, const Arguments& arguments);
/// min and max(case_sensitive=false, attribute=none)
Value extreme_of(Interpreter& interpreter, const Value& input, const Arguments& arguments, bool largest);
template <bool kLargest>
Value extreme(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  return extreme_of(interpreter, input, arguments, kLargest);
}

}  // namespace troupe::text::jinja
