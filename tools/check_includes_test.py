"""Each offence is found in a small tree made for it, and a clean tree passes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).with_name("check_includes.py")


def run(files: dict[str, str]) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as name:
        for path, text in files.items():
            (Path(name) / path).parent.mkdir(parents=True, exist_ok=True)
            (Path(name) / path).write_text(text)
        return subprocess.run([sys.executable, TOOL, "--root", name], capture_output=True, text=True, check=False)


CLEAN = {
    "src/low/CMakeLists.txt": "autotriton_library(low PUBLIC_HEADERS low.h SOURCES low.cpp hidden.h)",
    "src/low/low.h": "#pragma once\n#include <string>\n",
    "src/low/hidden.h": "#pragma once\n",
    "src/low/low.cpp": '#include "low/low.h"\n#include "low/hidden.h"\n#include <nlohmann/json.hpp>\n',
    "src/middle/CMakeLists.txt": "autotriton_library(middle PUBLIC_HEADERS m.h DEPS autotriton::low)",
    "src/middle/m.h": '#include "low/low.h"\n',
    "src/high/CMakeLists.txt": "autotriton_library(high SOURCES h.cpp)\nadd_executable(x h.cpp)\ntarget_link_libraries(x autotriton::high autotriton::middle)\n",
    "src/high/h.cpp": '#include "low/low.h"  // Through middle.\n',
}


class CheckIncludesTest(unittest.TestCase):
    def test_a_clean_tree_passes(self) -> None:
        result = run(CLEAN)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))

    def expect(self, changes: dict[str, str], *parts: str) -> None:
        result = run(CLEAN | changes)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertEqual(len(result.stdout.splitlines()), 1, result.stdout)
        for part in parts:
            self.assertIn(part, result.stdout)

    def test_an_arrow_against_the_direction(self) -> None:
        self.expect({"src/low/low.cpp": '\n#include "middle/m.h"\n'}, "src/low/low.cpp:2", "low may not use middle")

    def test_a_library_in_a_public_header(self) -> None:
        self.expect({"src/low/low.h": "#include <nlohmann/json.hpp>\n"}, "src/low/low.h:1", "nlohmann/json.hpp")

    def test_a_private_header_of_another_room(self) -> None:
        self.expect({"src/high/h.cpp": '#include "low/hidden.h"\n'}, "low/hidden.h is no public header of low")

    def test_a_private_header_in_a_public_one(self) -> None:
        self.expect({"src/low/low.h": '#include "low/hidden.h"\n'}, "which is not public")

    def test_a_cycle(self) -> None:
        result = run(CLEAN | {"src/low/CMakeLists.txt": "autotriton_library(low PUBLIC_HEADERS low.h SOURCES hidden.h DEPS autotriton::middle)"})
        self.assertEqual(result.returncode, 1)
        self.assertIn("low needs itself", result.stdout)


if __name__ == "__main__":
    unittest.main()
