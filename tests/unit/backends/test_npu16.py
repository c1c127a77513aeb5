"""The example of a tiled backend that runs in cascades is exact at every point."""

from __future__ import annotations

import doctest
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import beside
import penstock
from examples.uma import npu16
from penstock.backends.uma import backend as facade
from penstock.ir.graph import Node
from penstock.uma import Offloaded, Scratchpads

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "how-to" / "bring-up-an-accelerator.md"
MODELS = beside.MODELS
LONG = [
    "zoo:lenet5", "zoo:resnet8", "zoo:tc_resnet8",
    *(str(MODELS / f"{name}.tflite") for name in (
        "kws_ref_model", "person_detect", "vww_96_int8", "ssd_slim_120x160x1",
        "mobilenetv2_160_035",
    )),
]  # fmt: skip


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(facade, "REGISTERED", {})
    npu16.Npu16().register()
    npu16.tiling.cache_clear()
    yield
    npu16.tiling.cache_clear()


def divided(node: Node) -> Iterator[str]:
    """The axes of a layer that the local memory divides into tiles."""
    offloaded = Offloaded(node, npu16.Npu16().accelerator().target)
    tiles = npu16.tiling(npu16.layer(offloaded)).tiles
    return (name for name, intervals in tiles.items() if len(intervals) > 1)


def test_every_point_is_exact_with_tiles_along_every_axis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npu16, "LOCAL", Scratchpads.shared(1536, alignment=4))
    done = penstock.verify(npu16.network(), "host", accelerators=("npu16",), every_point=True)
    assert {rung.comparison.mismatches for rung in done.rungs} == {0}
    graph = npu16.Npu16().partition(npu16.network())
    axes = {name for node in graph.nodes for name in divided(node)}
    assert axes == {"h", "w", "c"}


def test_layers_run_in_cascades_with_folded_constants() -> None:
    done = penstock.compile(npu16.network(), "cortex-m4", accelerators=("npu16",))
    points, files = done.compilation.points, done.bundle()
    assert points[0].height_bytes * 2 < points[-1].height_bytes
    code, weights = files["layers.c"].decode(), files["layers_weights.c"].decode()
    assert "npu16_load(0, arena + at00_input, 1920, 3, 3, 4);" in code
    (line,) = re.findall(r"```c\n(.*)\n```", PAGE.read_text("utf-8"))
    assert line in code
    assert (weights.count("_scales["), weights.count("bias")) == (4, 0)


def test_the_guide_contains_the_example() -> None:
    """Every line of the example is in a block of the guide, in blocks that it quotes verbatim."""
    example = Path(npu16.__file__).read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    quoted = [block for block in blocks if ">>>" not in block]
    assert [block for block in quoted if block not in example] == []
    body = example.split("from __future__ import annotations\n")[1]
    for block in quoted:
        body = body.replace(block, "")
    assert body.strip() == ""


def test_every_point_is_exact_as_the_guide_says() -> None:
    found = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert (found.failed, found.attempted) == (0, 6)


@pytest.mark.long
@pytest.mark.parametrize("model", LONG, ids=lambda model: Path(model).stem)
def test_models_are_exact_at_every_point(model: str) -> None:
    if not model.startswith("zoo:"):
        beside.needed(Path(model))
    done = penstock.verify(
        model, "host", accelerators=("npu16",), every_point=True, last_rung="host"
    )
    assert {rung.comparison.mismatches for rung in done.rungs} == {0}
    engines = [part.engine for part in done.compiled.compilation.parts.parts]
    assert engines.count("npu16") > 2
