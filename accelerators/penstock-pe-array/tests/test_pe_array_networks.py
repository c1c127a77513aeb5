"""Networks on PE arrays of many shapes: functional model, stub and reference agree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import beside
from arrays import DATAFLOWS, TINY, accelerator, described, windows
from clean_sources import COMPILERS, assert_sources_are_clean
from found import few
from lowered import inputs_of_graph
from offloading import assert_exact, claimed, compiled, layer_by_layer
from penstock import api, ladder
from penstock.ir.graph import Graph
from penstock.reports.making import engine_work
from penstock.scheduling.options import DEFAULTS, Options
from penstock.zoo.registry import open_zoo
from penstock_pe_array import tiles
from small_networks import networks


@pytest.mark.parametrize("kind", COMPILERS)
def test_its_sources_compile_without_a_warning(kind: str, tmp_path: Path) -> None:
    assert_sources_are_clean("pe_array", kind, tmp_path)


@pytest.mark.parametrize("dataflow", DATAFLOWS)
@pytest.mark.parametrize("banks", [1, 2])
def test_tiles_of_every_axis_are_exact(dataflow: str, banks: int, tmp_path: Path) -> None:
    """Rows, columns, channels and, in fully connected layers, sums."""
    sizes = TINY if banks == 2 else {name: size // 2 for name, size in TINY.items()}
    file = accelerator(tmp_path, described(dataflow, banks=banks, **sizes))
    done = compiled(windows(), file)
    assert len(claimed(done.graph)) == 11
    assert_exact(done, "host", every_point=True)


def test_resnet8_is_exact_on_every_rung(tmp_path: Path) -> None:
    pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")
    file = accelerator(tmp_path, described("output-stationary", rows=12, columns=5, banks=1))
    done = compiled(open_zoo("zoo:resnet8"), file, target="cortex-m4")
    kinds = {"Conv2D", "FullyConnected", "Add", "AveragePool2D"}
    assert set(claimed(done.graph)) == {n.name for n in done.model.nodes if n.kind in kinds}
    assert_exact(done, "core")


@beside.need(beside.MODELS)
def test_keyword_spotting_is_exact_on_every_rung(tmp_path: Path) -> None:
    pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")
    file = accelerator(tmp_path, described("input-stationary", rows=6, columns=16))
    model = beside.needed(beside.MODELS / "kws_ref_model.tflite")
    done = api.verify(model, "cortex-m4", accelerators=(file,))
    assert [(rung.step, rung.mismatches) for rung in done.rungs] == [
        ("machine", 0),
        ("host", 0),
        ("core", 0),
    ]
    engines = [part.engine for part in done.compiled.compilation.parts.parts]
    assert engines.count("pe_array") == 11


@few
@given(graph=networks(), dataflow=st.sampled_from(DATAFLOWS), banks=st.sampled_from((1, 2)))
def test_random_networks_are_exact_at_every_point(
    tmp_path_factory: pytest.TempPathFactory, graph: Graph, dataflow: str, banks: int
) -> None:
    text = described(dataflow, banks=banks, **TINY)
    file = accelerator(tmp_path_factory.mktemp("array"), text)
    assert_exact(compiled(graph, file), "points")


def test_tensors_in_the_global_buffer_take_fewer_cycles(tmp_path: Path) -> None:
    """Groups of layers pass tensors on there; the stream takes as long as the estimate."""
    model, cycles = "zoo:resnet8:width=8,resolution=16", dict[str, float]()
    for partition in ("", "cascades", "resident", "layer", "paper", "best"):
        size = 6144 if partition else 0
        file = accelerator(tmp_path, described(shared=size, input=2048, weights=2048, output=4096))
        options = Options(partition=partition) if size else DEFAULTS
        done = api.verify(model, "host", accelerators=(file,), options=options)
        assert [rung.mismatches for rung in done.rungs] == [0, 0]
        compilation = done.compiled.compilation
        cycles[partition] = compilation.schedule.cost.cycles
        used = {b.memory for b in compilation.program.buffers}
        assert ("global_buffer" in used) == (partition not in ("", "layer"))
    without = cycles.pop("")
    del cycles["layer"]
    assert max(cycles.values()) < without


def test_a_choice_of_divided_axes_takes_fewer_cycles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Than the tiles that move the fewest bytes: these may be many, and each has a latency."""
    cycles: list[float] = []
    for divided in (tiles.DIVIDED, tiles.DIVIDED[:1]):
        monkeypatch.setattr(tiles, "DIVIDED", divided)
        tiles._tiling.cache_clear()
        tiles._timed.cache_clear()
        file = accelerator(tmp_path, described(rows=8, columns=8))
        done = layer_by_layer(compiled(open_zoo("zoo:resnet8"), file))
        cycles.append(done.schedule.cost.cycles)
    tiles._tiling.cache_clear()
    tiles._timed.cache_clear()
    assert cycles[0] < 0.95 * cycles[1]


def test_operators_that_the_file_does_not_list_run_on_the_processor(tmp_path: Path) -> None:
    file = accelerator(tmp_path, described(operators=("conv2d", "fully_connected")))
    done = compiled(windows(), file)
    assert set(claimed(done.graph)) == {
        n.name for n in done.model.nodes if n.kind in ("Conv2D", "FullyConnected")
    }
    reasons = {one.reason for one in done.parts.cpu_fallbacks}
    assert any("it lists conv2d, fully_connected" in reason for reason in reasons)


def test_layers_whose_tiles_do_not_fit_run_on_the_processor(tmp_path: Path) -> None:
    done = compiled(windows(), accelerator(tmp_path, described(weights=8)))
    assert "dilated" not in claimed(done.graph)
    reasons = {one.node.name: one.reason for one in done.parts.cpu_fallbacks}
    assert "no tile fits" in reasons["dilated"]


def test_layers_of_too_many_tiles_run_on_the_processor(tmp_path: Path) -> None:
    sizes = {"input": 64, "weights": 64, "output": 32}
    file = accelerator(tmp_path, described(rows=1, columns=1, **sizes))
    reasons = [one.reason for one in compiled(open_zoo("zoo:lenet5"), file).parts.cpu_fallbacks]
    assert any(re.search("there are [0-9]+ tiles, at most 4096", reason) for reason in reasons)


def test_an_edited_file_is_read_again(tmp_path: Path) -> None:
    cycles = [
        compiled(windows(), accelerator(tmp_path, described(rows=size, columns=size)))
        .schedule.cost.cycles
        for size in (2, 16, 2)
    ]  # fmt: skip
    assert cycles[1] < cycles[0] == cycles[2]


@pytest.mark.parametrize("dataflow", DATAFLOWS)
@pytest.mark.parametrize("banks", [1, 2])
def test_the_cost_model_and_the_stream_take_the_same_cycles(
    dataflow: str, banks: int, tmp_path: Path
) -> None:
    """Of whole layers; in stripes, the cost does not know where tiles meet the border."""
    sizes = TINY if banks == 2 else {name: size // 2 for name, size in TINY.items()}
    file = accelerator(tmp_path, described(dataflow, banks=banks, shared=2048, **sizes))
    done = layer_by_layer(compiled(windows(), file))
    _, found = ladder.run_machine(done, [inputs_of_graph(done.model, 3)])
    (estimated,) = (work.cycles for work in engine_work(done.schedule) if work.name == "pe_array")
    assert estimated.estimated == pytest.approx(found["pe_array"], rel=1e-3)
