// The measured codec from start to start: found again for the same group alone, and not when damaged or foreign.
#include "cluster/launch/stored_codec.h"
#include "tests/support/scratch_folder.h"

#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>

using namespace troupe;
using namespace troupe::cluster;
using namespace troupe::cluster::launch;

namespace {

ClusterPlan two_ranks() {
  ClusterPlan plan;
  plan.shape = {2, 1};
  plan.ranks.resize(2);
  return plan;
}

}  // namespace

TEST_CASE("a measured codec is found again, for the same group only") {
  const std::filesystem::path scratch = test::scratch_folder() / "kept";
  const base::CacheFolder folder(scratch);
  const Hash128 model{1, 2};
  const StoredCodec stored(folder, model, two_ranks(), Options{}, "some cpu");
  CHECK_FALSE(stored.find());
  REQUIRE(stored.keep("int8").ok());
  CHECK(StoredCodec(folder, model, two_ranks(), Options{}, "some cpu").find() == "int8");

  CHECK_FALSE(StoredCodec(folder, Hash128{1, 3}, two_ranks(), Options{}, "some cpu").find());
  CHECK_FALSE(StoredCodec(folder, model, two_ranks(), Options{}, "another cpu").find());
  ClusterPlan other = two_ranks();
  other.shape = {1, 2};
  CHECK_FALSE(StoredCodec(folder, model, other, Options{}, "some cpu").find());
  other = two_ranks();
  other.ranks[1].interface = "eth1";
  CHECK_FALSE(StoredCodec(folder, model, other, Options{}, "some cpu").find());
  Options fp32;
  fp32.activations = "fp32";
  CHECK_FALSE(StoredCodec(folder, model, two_ranks(), fp32, "some cpu").find());
}

TEST_CASE("a damaged record, or one of a codec that is not known, is none") {
  const std::filesystem::path scratch = test::scratch_folder() / "damaged";
  const base::CacheFolder folder(scratch);
  const StoredCodec stored(folder, Hash128{1, 2}, two_ranks(), Options{}, "cpu");
  REQUIRE(stored.keep("int9").ok());
  CHECK_FALSE(stored.find());
  REQUIRE(stored.keep("bf16").ok());
  CHECK(stored.find() == "bf16");
  {
    std::fstream file(scratch / stored.file_name(), std::ios::in | std::ios::out | std::ios::binary | std::ios::ate);
    file.seekp(-1, std::ios::end);
    file.put('7');
  }
  CHECK_FALSE(stored.find());
}

TEST_CASE("without a cache folder nothing is kept") {
  const StoredCodec stored(base::CacheFolder(), Hash128{1, 2}, two_ranks(), Options{}, "cpu");
  (void)stored.keep("int8");
  CHECK_FALSE(stored.find());
}
