#include "syntax/values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "syntax/reach.h"

namespace autotriton::syntax {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

/// A source with its resolver; what is asked about stands in calls of `probe(…)`.
class Source {
 public:
  explicit Source(const std::string& text) : module_(std::get<Module>(parse(text))), resolver_(module_) {}

  Resolver& resolver() { return resolver_; }
  const Module& module() const { return module_; }

  /// What the argument of the only `probe(…)` may be, as words.
  std::vector<std::string> probe() {
    for (const NodeId call : resolver_.scopes().calls()) {
      const NodeId function = module_.child(call, Field::kFunction);
      if (module_.kind(function) == Kind::kIdentifier && module_.name_of(function) == "probe") {
        return described(resolver_.values(resolver_.argument(call, 0, "")));
      }
    }
    return {"no probe"};
  }

  std::vector<std::string> described(const ValueSet& values) {
    std::vector<std::string> words;
    for (const Value& value : values) {
      const std::string name(module_.name_of(module_.child(value.node == kNoNode ? 0 : value.node, Field::kName)));
      switch (value.kind) {
        case ValueKind::kExternal:
          words.emplace_back(resolver_.text(value));
          break;
        case ValueKind::kUnresolved:
          words.push_back("unresolved " + std::string(resolver_.text(value)));
          break;
        case ValueKind::kFunction:
          words.push_back("function " + name);
          break;
        case ValueKind::kJit:
          words.push_back("jit " + name);
          break;
        case ValueKind::kLaunch:
          words.push_back("launch " + name);
          break;
        case ValueKind::kClass:
          words.push_back("class " + name);
          break;
        case ValueKind::kInstance:
          words.push_back("instance " + name);
          break;
        case ValueKind::kSuper:
          words.push_back("super " + name);
          break;
        case ValueKind::kResult:
          words.push_back("result " + std::string(resolver_.text(value)));
          break;
        case ValueKind::kContainer:
          words.emplace_back("container");
          break;
        case ValueKind::kLiteral:
          words.emplace_back("literal");
          break;
      }
    }
    return words;
  }

  std::vector<std::string> jit_names() {
    std::vector<std::string> names;
    for (const NodeId function : resolver_.jit_functions())
      names.emplace_back(module_.name_of(module_.child(function, Field::kName)));
    return names;
  }

  /// Names of the functions reached from the function `entry`.
  std::vector<std::string> reached(const std::string& entry) {
    Reach reach(resolver_);
    for (const Value& value : resolver_.global(entry)) reach.add(value.node);
    std::vector<std::string> names;
    for (const NodeId body : reach.bodies()) names.emplace_back(module_.name_of(module_.child(body, Field::kName)));
    return names;
  }

 private:
  Module module_;
  Resolver resolver_;
};

std::vector<std::string> probe(const std::string& text) { return Source(text).probe(); }

TEST(ValuesTest, ImportsGiveFullNames) {
  EXPECT_THAT(probe("import torch as t\nprobe(t.nn.functional.relu)\n"), ElementsAre("torch.nn.functional.relu"));
  EXPECT_THAT(probe("import torch.nn.functional as F\nprobe(F.relu)\n"), ElementsAre("torch.nn.functional.relu"));
  EXPECT_THAT(probe("import torch.nn.functional\nprobe(torch.nn.functional.relu)\n"),
              ElementsAre("torch.nn.functional.relu"));
  EXPECT_THAT(probe("from torch import nn\nprobe(nn.Linear)\n"), ElementsAre("torch.nn.Linear"));
  EXPECT_THAT(probe("from triton import jit as j\nprobe(j)\n"), ElementsAre("triton.jit"));
  EXPECT_THAT(probe("from torch.nn.functional import *\nprobe(relu)\n"), ElementsAre("torch.nn.functional.relu"));
  EXPECT_THAT(probe("from . import kernels\nprobe(kernels)\n"), ElementsAre(".kernels"));
}

TEST(ValuesTest, AssignmentsAreFollowed) {
  EXPECT_THAT(probe("import torch\nF = torch.nn.functional\nrelu = F.relu\nprobe(relu)\n"),
              ElementsAre("torch.nn.functional.relu"));
  EXPECT_THAT(probe("import torch\na, b = torch.mm, torch.add\nprobe(b)\n"), ElementsAre("torch.add"));
  EXPECT_THAT(probe("import torch\nif c:\n    f = torch.mm\nelse:\n    f = torch.add\nprobe(f)\n"),
              UnorderedElementsAre("torch.mm", "torch.add"));
  EXPECT_THAT(probe("import torch\nf = torch.mm if c else torch.add\nprobe(f)\n"),
              UnorderedElementsAre("torch.mm", "torch.add"));
  EXPECT_THAT(probe("import torch\nprobe((g := torch.mm))\n"), ElementsAre("torch.mm"));
  EXPECT_THAT(probe("x = y\ny = x\nprobe(x)\n"), IsEmpty()) << "a cycle means nothing";
}

TEST(ValuesTest, BuiltinsAndUnboundNames) {
  EXPECT_THAT(probe("probe(exec)\n"), ElementsAre("builtins.exec"));
  EXPECT_THAT(probe("probe(missing)\n"), ElementsAre("unresolved missing"));
  EXPECT_THAT(probe("def exec(x):\n    return x\nprobe(exec)\n"), ElementsAre("function exec"));
}

TEST(ValuesTest, ScopesArePythons) {
  EXPECT_THAT(probe("import torch as x\ndef f(x):\n    return 1\nprobe(x)\n"), ElementsAre("torch"));
  EXPECT_THAT(probe("import torch as t\nclass A:\n    t = 1\n    def f(self):\n        probe(t)\n"),
              ElementsAre("torch"))
      << "a class is no scope of its methods";
  EXPECT_THAT(probe("import torch as t\ndef f():\n    global t\n    t = 1\nprobe(t)\n"),
              UnorderedElementsAre("torch", "literal"));
  EXPECT_THAT(probe("import torch as t\nz = [t for t in range(3)]\nprobe(t)\n"), ElementsAre("torch"))
      << "a comprehension keeps its names";
}

TEST(ValuesTest, ContainersGiveTheirElements) {
  EXPECT_THAT(probe("import torch\nD = {'a': torch.mm, 'b': torch.add}\nprobe(D[k])\n"),
              UnorderedElementsAre("torch.mm", "torch.add"));
  EXPECT_THAT(probe("import torch\nprobe((torch.mm, torch.add)[1])\n"), ElementsAre("torch.add"));
  EXPECT_THAT(probe("import torch\nD = dict(a=torch.mm)\nprobe(D.get('a'))\n"), ElementsAre("torch.mm"));
  EXPECT_THAT(probe("import torch\nfor f in [torch.mm, torch.add]:\n    probe(f)\n"),
              UnorderedElementsAre("torch.mm", "torch.add"));
  EXPECT_THAT(probe("import torch\nfor k, f in {'a': torch.mm}.items():\n    probe(f)\n"), IsEmpty())
      << "pairs are not taken apart";
}

TEST(ValuesTest, CallsReturnWhatTheirFunctionsReturn) {
  EXPECT_THAT(probe("import torch\ndef f():\n    return torch.mm\nprobe(f())\n"), ElementsAre("torch.mm"));
  EXPECT_THAT(probe("import torch\nf = lambda: torch.mm\nprobe(f())\n"), ElementsAre("torch.mm"));
  EXPECT_THAT(probe("import torch\nprobe(torch.empty(3))\n"), ElementsAre("result torch.empty"));
  EXPECT_THAT(probe("import torch\nprobe(getattr(torch, 'mm'))\n"), ElementsAre("torch.mm"));
  EXPECT_THAT(probe("import torch, functools\nprobe(functools.partial(torch.mm, 1))\n"), ElementsAre("torch.mm"));
}

TEST(ValuesTest, ParametersAreWhatCallersPass) {
  EXPECT_THAT(probe("import torch\ndef f(g, h=None):\n    probe(g)\nf(torch.mm)\nf(h=1, g=torch.add)\n"),
              UnorderedElementsAre("torch.mm", "torch.add"));
  EXPECT_THAT(probe("import torch\ndef f(g):\n    probe(g)\ndef h(k):\n    f(k)\nh(torch.mm)\n"),
              ElementsAre("torch.mm"));
}

TEST(ValuesTest, ClassesAttributesAndMethods) {
  const std::string head =
      "import torch\nimport torch.nn as nn\nclass Base:\n    def m(self):\n        return torch.mm\n";
  EXPECT_THAT(probe(head + "class A(Base):\n    def __init__(self):\n        self.f = torch.add\n    def g(self):\n    "
                           "    probe(self.f)\n"),
              ElementsAre("torch.add"));
  EXPECT_THAT(probe(head + "class A(Base):\n    def g(self):\n        probe(self.m())\n"), ElementsAre("torch.mm"));
  EXPECT_THAT(probe(head + "class A(Base):\n    def m(self):\n        probe(super().m())\n"), ElementsAre("torch.mm"));
  EXPECT_THAT(probe(head + "class A(nn.Linear):\n    def forward(self):\n        probe(super().forward)\n"),
              ElementsAre("torch.nn.Linear.forward"));
  EXPECT_THAT(probe(head + "class A:\n    def __init__(self):\n        self.fc = nn.Linear(1, 2)\n    def g(self):\n   "
                           "     probe(self.fc.weight)\n"),
              ElementsAre("torch.nn.Linear().weight"));
  EXPECT_THAT(probe(head + "class A:\n    def __init__(self):\n        setattr(self, 'f', torch.add)\n    def "
                           "g(self):\n        probe(self.f)\n"),
              ElementsAre("torch.add"));
  EXPECT_THAT(probe(head + "class A:\n    def g(self):\n        probe(self.f)\nA.f = torch.add\n"),
              ElementsAre("torch.add"));
  EXPECT_THAT(probe(head + "probe(Base())\n"), ElementsAre("instance Base"));
}

TEST(ValuesTest, ModulesSeenThroughOthersAreThemselves) {
  EXPECT_THAT(probe("import torch\nprobe(torch.sys.modules)\n"), ElementsAre("sys.modules"));
  EXPECT_THAT(probe("from dataclasses import sys\nprobe(sys._getframe)\n"), ElementsAre("sys._getframe"));
  EXPECT_THAT(probe("import torch.nn.functional as F\nprobe(F.torch.mm)\n"), ElementsAre("torch.mm"));
}

TEST(JitFunctionsTest, AreFoundUnderEveryDecoration) {
  EXPECT_THAT(Source("import triton\n@triton.jit\ndef k(): pass\n").jit_names(), ElementsAre("k"));
  EXPECT_THAT(
      Source(
          "import triton\n@triton.autotune(configs=[], key=[])\n@triton.heuristics({})\n@triton.jit\ndef k(): pass\n")
          .jit_names(),
      ElementsAre("k"));
  EXPECT_THAT(Source("from triton.runtime.jit import jit\n@jit\ndef k(): pass\n").jit_names(), ElementsAre("k"));
  EXPECT_THAT(Source("import triton\ndef f(): pass\nk = triton.jit(f)\n").jit_names(), ElementsAre("f"));
  EXPECT_THAT(Source("import triton\n@triton.jit(debug=True)\ndef k(): pass\n").jit_names(), ElementsAre("k"));
  EXPECT_THAT(Source("import triton\nmine = triton.jit\n@mine\ndef k(): pass\n").jit_names(), ElementsAre("k"));
  EXPECT_THAT(Source("import triton\ndef mine(f):\n    return triton.jit(f)\n@mine\ndef k(): pass\n").jit_names(),
              ElementsAre("k"));
  EXPECT_THAT(Source("import triton\n@triton.jit(None)\ndef k(): pass\n").jit_names(), ElementsAre("k"));
  EXPECT_THAT(Source("import torch\n@torch.jit.script\ndef k(): pass\n").jit_names(), IsEmpty());
  EXPECT_THAT(probe("import triton\n@triton.jit\ndef k(): pass\nprobe(k[(1,)])\n"), ElementsAre("launch k"));
  EXPECT_THAT(probe("import triton\n@triton.jit\ndef k(): pass\nprobe(k.run)\n"), ElementsAre("launch k"));
}

TEST(ReachTest, FollowsCallsReferencesAndSkipsDeadCode) {
  const std::string functions = "def a(): pass\ndef b(): pass\ndef c(): pass\n";
  EXPECT_THAT(Source(functions + "def f():\n    a()\n    list(map(b, []))\n").reached("f"),
              UnorderedElementsAre("f", "a", "b"));
  EXPECT_THAT(
      Source(functions + "def f():\n    if False:\n        a()\n    elif True:\n        b()\n    else:\n        c()\n")
          .reached("f"),
      UnorderedElementsAre("f", "b"));
  EXPECT_THAT(
      Source(functions + "def f():\n    if x:\n        return a()\n    else:\n        raise b\n    c()\n").reached("f"),
      UnorderedElementsAre("f", "a", "b"));
  EXPECT_THAT(
      Source(functions + "def f():\n    while 0:\n        a()\n    return (lambda: b())\n    c()\n").reached("f"),
      UnorderedElementsAre("f", "b"));
  EXPECT_THAT(
      Source(functions + "def f(x: a = b):\n    def inner():\n        return c()\n    return inner()\n").reached("f"),
      UnorderedElementsAre("f", "inner", "c"));
  EXPECT_THAT(Source(functions + "class K:\n    def __init__(self): a()\n    def __enter__(self): b()\n    def "
                                 "m(self): c()\ndef f():\n    K()\n")
                  .reached("f"),
              UnorderedElementsAre("f", "__init__", "a", "__enter__", "b"));
  EXPECT_THAT(Source("import torch\nclass A(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x): "
                     "pass\n    @staticmethod\n    def backward(ctx, g): pass\ndef f():\n    A.apply(1)\n")
                  .reached("f"),
              UnorderedElementsAre("f", "forward"));
}

TEST(ResolverTest, EndsOnTangledSources) {
  std::string tangled = "import torch\n";
  for (int i = 0; i < 300; ++i) {
    const std::string a = std::to_string(i), b = std::to_string((i * 7 + 1) % 300),
                      c = std::to_string((i * 13 + 5) % 300);
    tangled += "def f" + a + "(x):\n    return f" + b + "(f" + c + "(x)) if x else g" + a + "[x]\ng" + a + " = [f" + b +
               ", f" + c + ", g" + b + "]\n";
  }
  Source source(tangled + "probe(f1(torch.mm))\n");
  EXPECT_LE(source.probe().size(), 24U);
}

}  // namespace
}  // namespace autotriton::syntax
