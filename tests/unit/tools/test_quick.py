"""The quick group names existing tests, and `--quick` runs nothing else."""

from __future__ import annotations

import pytest

from quick import QUICK_FILES, TESTS, is_quick


@pytest.mark.parametrize("name", QUICK_FILES)
def test_a_quick_file_exists(name: str) -> None:
    assert (TESTS / name).exists()


def test_quick_files_and_their_folders_are_collected() -> None:
    assert is_quick(TESTS)
    assert is_quick(TESTS / "laws")
    assert is_quick(TESTS / "laws" / "test_placement.py")
    assert is_quick(TESTS / "unit" / "passes" / "test_accumulate.py")
    assert not is_quick(TESTS / "laws" / "test_kernel_c.py")
    assert not is_quick(TESTS / "c")
