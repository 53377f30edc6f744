// The file of --system-prompts: what it holds, and errors that name the file, the prompt and the field.
#include "cluster/system_prompts_file.h"

#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <unistd.h>

using namespace troupe;
using namespace troupe::cluster;

namespace {

/// Gone with the test.
class Folder {
 public:
  Folder() { std::filesystem::create_directory(path_); }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string write(const std::string& name, const std::string& text) {
    const auto path = path_ / name;
    std::ofstream(path, std::ios::binary) << text;
    return path.string();
  }
  Result<gateway::SystemPrompts> read(const std::string& toml) { return read_system_prompts(write("prompts.toml", toml)); }

 private:
  const std::filesystem::path path_ = std::filesystem::temp_directory_path() / ("troupe_prompts_" + std::to_string(::getpid()));
};

}  // namespace

TEST_CASE("prompts are read in their order, with their texts or from files beside the file") {
  Folder folder;
  folder.write("long.txt", "From a file.\nSecond line.\r\n");
  const auto prompts =
      folder.read("[[prompt]]\nname = \"b\"\ntext = \"\"\"\nBe brief.\"\"\"\n\n[[prompt]]\nname = \"A_1.x-y\"\nfile = \"long.txt\"\n");
  REQUIRE(prompts.ok());
  REQUIRE(prompts->size() == 2);
  CHECK((*prompts)[0].name == "b");
  CHECK((*prompts)[0].text == "Be brief.");
  CHECK((*prompts)[1].name == "A_1.x-y");
  CHECK((*prompts)[1].text == "From a file.\nSecond line.");
  CHECK(read_system_prompts("")->empty());
  CHECK(folder.read("")->empty());
}

TEST_CASE("faults of prompts are told in one line") {
  Folder folder;
  folder.write("empty.txt", "\n");
  folder.write("latin.txt", "caf\xe9");
  folder.write("large.txt", std::string((1 << 20) + 1, 'x'));
  std::string many;
  for (int i = 0; i < 257; i++) many += "[[prompt]]\nname = \"p" + std::to_string(i) + "\"\ntext = \"x\"\n";
  struct Case {
    std::string toml;
    std::vector<std::string> words;
  };
  for (const auto& [toml, words] :
       std::vector<Case>{{"[[prompt]\n", {"prompts.toml:1"}},
                         {"prompts = 1\n", {"'prompts'", "[[prompt]]"}},
                         {"prompt = 1\n", {"[[prompt]]"}},
                         {"[prompt]\nname = \"a\"\n", {"[[prompt]]"}},
                         {"[[prompt]]\ntext = \"secret\"\n", {"prompts.toml:1", "name must be"}},
                         {"[[prompt]]\nname = \"a b\"\ntext = \"secret\"\n", {"name must be", "64"}},
                         {"[[prompt]]\nname = \"" + std::string(65, 'a') + "\"\ntext = \"secret\"\n", {"name must be"}},
                         {"[[prompt]]\nname = \"a\"\n", {"prompt a", "text or file"}},
                         {"[[prompt]]\nname = \"a\"\ntext = \"secret\"\nfile = \"long.txt\"\n", {"prompt a", "text or file"}},
                         {"[[prompt]]\nname = \"a\"\ntext = 7\n", {"prompt a", "text must be a text"}},
                         {"[[prompt]]\nname = \"a\"\ntext = \"\"\n", {"prompt a", "text must be 1 to"}},
                         {"[[prompt]]\nname = \"a\"\ntxt = \"secret\"\n", {"prompt a", "'txt'"}},
                         {"[[prompt]]\nname = \"a\"\nfile = \"none.txt\"\n", {"prompt a", "file", "none.txt", "cannot be read"}},
                         {"[[prompt]]\nname = \"a\"\nfile = \"empty.txt\"\n", {"prompt a", "file must be 1 to"}},
                         {"[[prompt]]\nname = \"a\"\nfile = \"latin.txt\"\n", {"prompt a", "file", "UTF-8"}},
                         {"[[prompt]]\nname = \"a\"\nfile = \"large.txt\"\n", {"prompt a", "file", "more than"}},
                         {"[[prompt]]\nname = \"a\"\ntext = \"secret\"\n[[prompt]]\nname = \"a\"\ntext = \"secret\"\n",
                          {"prompts.toml:4", "prompt a", "name"}},
                         {many, {"257 prompts", "256"}}}) {
    INFO(toml.substr(0, 200));
    const auto prompts = folder.read(toml);
    REQUIRE_FALSE(prompts.ok());
    const auto& text = prompts.error().client_text;
    INFO(text);
    CHECK(text.find("--system-prompts") == 0);
    CHECK(text.find('\n') == std::string::npos);
    CHECK(text.find("secret") == std::string::npos);
    for (const auto& word : words) CHECK(text.find(word) != std::string::npos);
  }
  CHECK_FALSE(read_system_prompts("/no/such.toml").ok());
}
