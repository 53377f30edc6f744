// Value: what a template's expressions compute with: Jinja's (Python's) types, as far as chat templates use them.
// Copies are cheap; texts, lists and dictionaries are shared and never change, but for a namespace's attributes.
#pragma once
#include "runtime/text/jinja/text.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace troupe::text::jinja {

class Interpreter;
class Value;
using List = std::vector<Value>;

/// In order of insertion; keys are texts. Large ones have an index, so that a client's cannot cost the square of their size.
class Dict {
 public:
  void set(Text key, Value value);
  const Value* find(std::string_view key) const;
  const std::vector<std::pair<Text, Value>>& entries() const { return entries_; }

 private:
  static constexpr std::size_t kSmall = 16;
  std::size_t place(std::string_view key) const;  // entries_.size() = not there
  std::vector<std::pair<Text, Value>> entries_;
  std::map<std::string, std::size_t, std::less<>> places_;  // empty up to kSmall entries
};

/// Arguments of a call, evaluated.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
  std::size_t line = 0;
  /// The argument at `index`, else the one called `name`; nullptr = not given.
  const Value* find(std::size_t index, std::string_view name) const;
};
using Function = std::function<Value(Interpreter&, const Arguments&)>;

struct Undefined {
  std::string name;  // of what was looked up, for error texts
};
struct None {};
/// What `namespace()` makes: the only thing that a template can change.
struct Namespace {
  Dict attributes;
};

class Value {
 public:
  using Storage = std::variant<Undefined, None, bool, std::int64_t, double, std::shared_ptr<const Text>, std::shared_ptr<const List>,
                               std::shared_ptr<const Dict>, std::shared_ptr<Namespace>, std::shared_ptr<const Function>>;
  Value() : storage_(Undefined{}) {}
  Value(Undefined undefined) : storage_(std::move(undefined)) {}
  Value(None none) : storage_(none) {}
  Value(bool value) : storage_(value) {}
  Value(std::int64_t value) : storage_(value) {}
  Value(double value) : storage_(value) {}
  Value(Text text);
  Value(List list);
  Value(Dict dict);
  Value(std::shared_ptr<Namespace> names) : storage_(std::move(names)) {}
  Value(Function function) : storage_(std::make_shared<const Function>(std::move(function))) {}
  Value(const char*) = delete;  // would become a bool
  /// Python's tuple: a list that prints with round brackets and equals no list.
  static Value tuple(List list);

  // nullptr = of another type
  const Undefined* undefined() const { return std::get_if<Undefined>(&storage_); }
  bool is_none() const { return std::holds_alternative<None>(storage_); }
  const bool* boolean() const { return std::get_if<bool>(&storage_); }
  const std::int64_t* integer() const { return std::get_if<std::int64_t>(&storage_); }
  const double* real() const { return std::get_if<double>(&storage_); }
  const Text* text() const { return shared<const Text>(); }
  const List* list() const { return shared<const List>(); }
  bool is_tuple() const { return tuple_; }
  const Dict* dict() const { return shared<const Dict>(); }
  Namespace* names() const { return shared<Namespace>(); }
  const Function* function() const { return shared<const Function>(); }

  bool is_number() const { return boolean() != nullptr || integer() != nullptr || real() != nullptr; }
  /// About the bytes that printing the value takes, parts that are shared counted as often as they occur; stops at kMaxWeight.
  /// Known when the value is made, so that work can be refused before it is done.
  std::uint32_t weight() const { return weight_; }
  static constexpr std::uint32_t kMaxWeight = 1U << 31;
  std::uint32_t depth() const { return depth_; }  // 0: no container
  bool is_container() const { return depth_ > 0; }

  double as_real() const;                                  // of a number
  bool truthy() const;                                     // Python's rules
  const char* type_name() const;                           // for error texts
  Text to_text() const;                                    // as {{ }} prints it; containers as Python's repr
  friend bool operator==(const Value& a, const Value& b);  // Python's rules; texts by their bytes alone

 private:
  template <class T>
  T* shared() const {
    const auto* pointer = std::get_if<std::shared_ptr<T>>(&storage_);
    return pointer == nullptr ? nullptr : pointer->get();
  }
  void add_part(const Value& part);

  Storage storage_;
  std::uint32_t weight_ = 8;
  std::uint32_t depth_ = 0;
  bool tuple_ = false;
};

inline Value template_text(std::string bytes) { return Value(Text(std::move(bytes), Origin::kTemplate)); }

/// How `tojson` writes; the defaults are those of transformers' filter.
struct JsonStyle {
  std::size_t indent = 0;                     // blanks a level; 0 = all on one line
  Text between_items, between_key_and_value;  // separators
  bool ascii_only = false, sorted_keys = false;
};
Text to_json(const Value& value, const JsonStyle& style, std::size_t line);
/// JSON text of a caller as a value, its keys in the caller's order; strings and keys are the caller's. Throws TemplateError: no JSON, or
/// nested deeper than `max_depth`.
Value from_json(std::string_view json, std::size_t max_depth);

}  // namespace troupe::text::jinja
