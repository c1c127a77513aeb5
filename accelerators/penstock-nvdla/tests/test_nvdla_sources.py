"""The driver of nvdla compiles without a warning."""

from __future__ import annotations

from pathlib import Path

import pytest

from clean_sources import COMPILERS, assert_sources_are_clean


@pytest.mark.parametrize("kind", COMPILERS)
def test_its_sources_compile_without_a_warning(kind: str, tmp_path: Path) -> None:
    assert_sources_are_clean("nvdla", kind, tmp_path)
