"""docs/how-to/write-a-tiler.md, followed: its blocks run in their order, and print as it shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from penstock.tiling.nest import Tiler
from penstock.tiling.sequence import TileSequencer

PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "write-a-tiler.md"


def test_the_page_is_true(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```(\w*)\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    for kind, text in blocks:
        if kind == "python":
            exec(compile(text, str(PAGE), "exec"), names)
        else:
            assert capsys.readouterr().out == text
    tiler: Tiler = names["WholeRows"]()
    assert tiler.dims(names["layer"], names["scratchpads"]) == {"h", "k"}
    assert isinstance(names["Snake"](), TileSequencer)
    assert {kind for kind, _ in blocks} == {"python", ""}
    cut = {name for name, tiles in names["tiling"].tiles.items() if len(tiles) > 1}
    assert cut == {"h", "k"}
