"""The figures of `--assume-int8` that the guide states are those of its command."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import assumed_int8

GUIDE = Path(__file__).parents[3] / "docs" / "how-to" / "from-pytorch.md"


def test_the_guide_states_how_far_the_figures_are_from_the_quantised_network() -> None:
    pytest.importorskip("onnxruntime", reason="the extra 'quantise' is not installed")
    more = {name: quantised / assumed - 1 for name, assumed, quantised in assumed_int8.figures()}
    text = GUIDE.read_text("utf-8")
    assert more["MACs"] == 0
    for name in ("RAM", "flash", "cycles"):
        sign = "more" if more[name] >= 0 else "fewer"
        assert f"{abs(more[name]):.1%} {sign} {name}".replace("%", " %") in text
