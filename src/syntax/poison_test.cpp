#include "syntax/poison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace autotriton::syntax {
namespace {

const std::string kHead = "import triton\nimport triton.language as tl\n@triton.jit\ndef k(p, q, n):\n";

/// Poisons a kernel with this body (lines of four spaces) and returns the new body. Checks what holds for every source.
std::string poisoned(const std::string& body, Poison poison = Poison::kNumber, const std::string& head = kHead) {
  auto parsed = parse(head + body);
  if (!std::holds_alternative<Module>(parsed)) return "the case does not parse";
  const std::string result = poison_stores(std::get<Module>(parsed), poison);
  EXPECT_TRUE(std::holds_alternative<Module>(parse(result))) << "does not parse any more:\n" << result;
  EXPECT_EQ(std::ranges::count(result, '\n'), std::ranges::count(head + body, '\n')) << "lines moved:\n" << result;
  EXPECT_TRUE(result.starts_with(head)) << result;
  return result.substr(std::min(head.size(), result.size()));
}

TEST(PoisonTest, FunctionsByPositionAndKeyword) {
  EXPECT_EQ(poisoned("    tl.store(p, v, mask=m)\n"), "    tl.store(p, ((v)*0 - 13337), mask=m)\n");
  EXPECT_EQ(poisoned("    tl.store(p, v, mask=m)\n", Poison::kZero), "    tl.store(p, ((v)*0), mask=m)\n");
  EXPECT_EQ(poisoned("    tl.store(pointer=p, value=a if b else c)\n"),
            "    tl.store(pointer=p, value=((a if b else c)*0 - 13337))\n");
  EXPECT_EQ(poisoned("    tl.store(p, mask=m, value=v,)\n"), "    tl.store(p, mask=m, value=((v)*0 - 13337),)\n");
  EXPECT_EQ(poisoned("    tl.atomic_add(p, v, sem='relaxed')\n"),
            "    tl.atomic_add(p, ((v)*0 - 13337), sem='relaxed')\n");
  EXPECT_EQ(poisoned("    old = tl.atomic_cas(p, 0, 1)\n"), "    old = tl.atomic_cas(p, 0, ((1)*0 - 13337))\n");
  EXPECT_EQ(poisoned("    tl.atomic_xchg(p, val=v)\n"), "    tl.atomic_xchg(p, val=((v)*0 - 13337))\n");
}

TEST(PoisonTest, ValuesOverSeveralLinesKeepTheirLines) {
  EXPECT_EQ(poisoned("    tl.store(\n        p,  # where\n        a +  # what\n        b,\n    )\n"),
            "    tl.store(\n        p,  # where\n        ((a +  # what\n        b)*0 - 13337),\n    )\n");
}

TEST(PoisonTest, Methods) {
  EXPECT_EQ(poisoned("    (p + 1).store(v, mask=m)\n"), "    (p + 1).store(((v)*0 - 13337), mask=m)\n");
  EXPECT_EQ(poisoned("    p.store(value=v)\n"), "    p.store(value=((v)*0 - 13337))\n");
  EXPECT_EQ(poisoned("    p.atomic_add(v)\n"), "    p.atomic_add(((v)*0 - 13337))\n");
  EXPECT_EQ(poisoned("    p.atomic_cas(a, v)\n"), "    p.atomic_cas(a, ((v)*0 - 13337))\n");
  EXPECT_EQ(poisoned("    d = tl.make_tensor_descriptor(p, [n], [1], [16])\n    d.store([0], v)\n"),
            "    d = tl.make_tensor_descriptor(p, [n], [1], [16])\n    d.store([0], ((v)*0 - 13337))\n");
  EXPECT_EQ(poisoned("    at = [0, 1]\n    p.store(at, v)\n"), "    at = [0, 1]\n    p.store(at, ((v)*0 - 13337))\n");
  EXPECT_EQ(poisoned("    tl.store_tensor_descriptor(d, [0], v)\n"),
            "    tl.store_tensor_descriptor(d, [0], ((v)*0 - 13337))\n");
}

TEST(PoisonTest, Aliases) {
  const std::string head =
      "import triton\nfrom triton import language as L\nfrom triton.language import store as put, "
      "atomic_add\n@triton.jit\ndef k(p):\n";
  EXPECT_EQ(poisoned("    put(p, 1)\n", Poison::kNumber, head), "    put(p, ((1)*0 - 13337))\n");
  EXPECT_EQ(poisoned("    atomic_add(p, 1)\n", Poison::kNumber, head), "    atomic_add(p, ((1)*0 - 13337))\n");
  EXPECT_EQ(poisoned("    L.store(p, 1)\n", Poison::kNumber, head), "    L.store(p, ((1)*0 - 13337))\n");
  EXPECT_EQ(poisoned("    s = L.store\n    s(p, 1)\n", Poison::kNumber, head),
            "    s = L.store\n    s(p, ((1)*0 - 13337))\n");
  EXPECT_EQ(poisoned("    store(p, 1)\n", Poison::kNumber,
                     "import triton\nfrom triton.language import *\n@triton.jit\ndef k(p):\n"),
            "    store(p, ((1)*0 - 13337))\n");
}

TEST(PoisonTest, StoresInsideStoresNest) {
  EXPECT_EQ(poisoned("    tl.store(p, tl.atomic_add(q, 1))\n"),
            "    tl.store(p, ((tl.atomic_add(q, ((1)*0 - 13337)))*0 - 13337))\n");
}

TEST(PoisonTest, OnlyJitBodiesAreTouched) {
  const std::string source =
      "import triton\nimport triton.language as tl\ndef host(p):\n    tl.store(p, 1)\n    box.store(2)\n";
  EXPECT_EQ(poison_stores(std::get<Module>(parse(source)), Poison::kNumber), source);
}

TEST(PoisonTest, FunctionsMadeJitByACallAreKnown) {
  const std::string head = "import triton\nimport triton.language as tl\ndef f(p):\n";
  EXPECT_EQ(poisoned("    tl.store(p, 1)\nk = triton.jit(f)\n", Poison::kNumber, head),
            "    tl.store(p, ((1)*0 - 13337))\nk = triton.jit(f)\n");
}

}  // namespace
}  // namespace autotriton::syntax
