"""Which versions of torch, triton and numpy the fork server starts with."""

from __future__ import annotations

import unittest

from fork_server import unusable_package

GOOD = {"torch": "2.11.0+cu130", "triton": "3.6.0", "numpy": "2.3.5"}


class VersionsTest(unittest.TestCase):
    def test_the_locked_versions_and_their_patches_are_usable(self) -> None:
        self.assertEqual(unusable_package(GOOD), "")
        self.assertEqual(unusable_package({**GOOD, "torch": "2.11.1", "numpy": "1.26.4"}), "")

    def test_a_numpy_that_breaks_the_interpreter_is_named(self) -> None:
        for numpy in ("2.4.0", "2.5.1", "2.10.0", "3.0.0"):
            self.assertIn(f"numpy {numpy}", unusable_package({**GOOD, "numpy": numpy}))

    def test_another_torch_or_triton_is_named_with_what_is_wanted(self) -> None:
        self.assertRegex(unusable_package({**GOOD, "torch": "2.9.1"}), "torch 2.9.1.*2.11")
        self.assertRegex(unusable_package({**GOOD, "triton": "3.16.0"}), "triton 3.16.0.*3.6")

    def test_a_missing_package_is_named(self) -> None:
        self.assertEqual(unusable_package({"torch": "2.11.0", "numpy": "2.3.0"}), "triton is not installed")


if __name__ == "__main__":
    unittest.main()
