// The command table, and bash completions made from it and from the option table.
#include "cluster/commands.h"

#include <array>

namespace troupe::cluster {

std::span<const CommandRow> command_table() {
  static constexpr std::array<std::string_view, 1> kShells{"bash"};
  static constexpr std::array kRows{
      CommandRow{"serve", "MODEL", "serve a model over HTTP and WebSocket, with a chat page", kServe},
      CommandRow{"launch", "FILE", "serve a model with several processes, as a cluster file says", kLaunch},
      CommandRow{"chat", "[MODEL]", "chat in the terminal: --url of a server, or MODEL in this process", kChat},
      CommandRow{"run", "[MODEL]", "answer one prompt: by the server at --url, or by MODEL in this process", kRun},
      CommandRow{"inspect", "MODEL", "tell the facts of a model file", kInspect},
      CommandRow{"bench", "MODEL", "measure prefill, decode, steps, kernels and serving on this machine", kBench},
      CommandRow{"options", "", "all options as a Markdown page"},
      CommandRow{"api", "", "the HTTP API as a Markdown page"},
      CommandRow{"completions", "bash", "a script for the shell: source <(troupe completions bash)", 0, kShells},
  };
  return kRows;
}

namespace {

std::string joined(std::span<const std::string_view> words) {
  std::string out;
  for (const std::string_view word : words)
    if (!word.empty()) out += (out.empty() ? "" : " ") + std::string(word);
  return out;
}

bool is_flag(const OptionRow& row) { return std::holds_alternative<bool Options::*>(row.field); }
bool takes_file(const OptionRow& row) { return row.unit == "path" || row.unit == "file"; }

std::string option_names(unsigned command) {
  std::string out = "--help";
  for (const OptionRow& row : option_table()) {
    if (row.hidden || row.positional || !takes(static_cast<CommandBits>(command), row)) continue;
    out += " --" + std::string(row.name);
    if (!row.short_name.empty()) out += " --" + std::string(row.short_name);
  }
  return out;
}

/// What may stand beside a model file, as the suites of `bench`.
std::string positional_words(unsigned command) {
  std::string out;
  for (const OptionRow& row : option_table())
    if (row.positional && (row.commands & command) != 0 && !row.choices.empty()) out += (out.empty() ? "" : " ") + joined(row.choices);
  return out;
}

/// The lines of a `case` over the option before the cursor: what its value may be.
std::string value_cases() {
  std::string files, free_values, out;
  for (const OptionRow& row : option_table()) {
    if (row.hidden || row.positional || is_flag(row)) continue;
    std::string pattern = "--" + std::string(row.name);
    if (!row.short_name.empty()) pattern += "|--" + std::string(row.short_name);
    if (!row.choices.empty())
      out += "    " + pattern + ") COMPREPLY=($(compgen -W '" + joined(row.choices) + "' -- \"$word\")); return ;;\n";
    else
      (takes_file(row) ? files : free_values) += (takes_file(row) ? files : free_values).empty() ? pattern : "|" + pattern;
  }
  if (!files.empty()) out += "    " + files + ") COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n";
  if (!free_values.empty()) out += "    " + free_values + ") return ;;\n";
  return out;
}

}  // namespace

std::string bash_completions() {
  std::string names;
  for (const CommandRow& row : command_table()) names += (names.empty() ? "" : " ") + std::string(row.name);
  std::string out =
      "# Completions of troupe for bash, made by `troupe completions bash`. Use: source <(troupe completions bash)\n"
      "_troupe() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  COMPREPLY=()\n"
      "  if ((COMP_CWORD == 1)); then\n"
      "    COMPREPLY=($(compgen -W '" +
      names +
      " --help --version' -- \"$word\"))\n"
      "    return\n"
      "  fi\n"
      "  case $before in\n" +
      value_cases() +
      "  esac\n"
      "  local options='' words='' beside=''\n"
      "  case ${COMP_WORDS[1]} in\n";
  for (const CommandRow& row : command_table()) {
    if (row.options != 0)
      out += "    " + std::string(row.name) + ") options='" + option_names(row.options) + "' beside='" + positional_words(row.options) +
             "' ;;\n";
    if (!row.words.empty()) out += "    " + std::string(row.name) + ") words='" + joined(row.words) + "' ;;\n";
  }
  return out +
         "    *) return ;;\n"
         "  esac\n"
         "  if [[ -n $words ]]; then\n"
         "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
         "  elif [[ $word == -* ]]; then\n"
         "    COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
         "  else\n"
         "    COMPREPLY=($(compgen -W \"$beside\" -- \"$word\") $(compgen -f -X '!*.@(gguf|toml)' -- \"$word\") $(compgen -d -- "
         "\"$word\"))\n"
         "  fi\n"
         "}\n"
         "complete -o filenames -F _troupe troupe\n";
}

}  // namespace troupe::cluster
