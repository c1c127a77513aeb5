"""Groups of layers in tiles, and bank groups of CVSRAM."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from benchmarks.compiled_partition import disagreements, engine_cycles, main_bytes
from benchmarks.tiled_groups import tiled_groups
from penstock import api
from penstock.errors import BackendError, UsageError
from penstock.memory.problem import LiveBuffer, PlacementProblem, in_whole_banks
from penstock.pipeline import placing
from penstock.pipeline.compilation import Compilation, compile_request
from penstock.pipeline.search import band_source
from penstock.scheduling.options import BYTES, Options
from penstock.scheduling.text.printer import print_frontier
from penstock.simulators.machine import Machine
from penstock_nvdla.fused import (
    LayerGroup,
    Spans,
    intervals,
    tile_plan,
)
from texts.schedule_reader import read_frontier

NETWORK = "zoo:squeezenet:resolution=64"
"""It has branches and concatenations."""
BANKED = "cvsram=96k,banked=True"


@cache
def compiled(attributes: str, *, tiles: bool = True) -> Compilation:
    return freshly_compiled(attributes, tiles=tiles)


def freshly_compiled(attributes: str, *, tiles: bool = True) -> Compilation:
    options = Options(partition="best", objective=BYTES, tiles=tiles)
    nvdla = f"nvdla:config=large,{attributes}"
    network = "zoo:resnet8" if attributes == BANKED else NETWORK
    return compile_request(
        api.request(network, "host", accelerators=(nvdla,), options=options, optimize="speed")
    )


@pytest.mark.parametrize("attributes", ["cvsram=8k", BANKED])
def test_groups_in_tiles_are_exact_and_cost_what_is_stated(attributes: str) -> None:
    done = compiled(attributes)
    assert list(tiled_groups(done))
    stated = engine_cycles(done.schedule), main_bytes(done.schedule)
    assert not list(disagreements(done, *stated))


def test_some_tiles_are_narrower_than_the_tensor_and_save_bytes() -> None:
    done, whole = compiled("cvsram=8k"), compiled("cvsram=8k", tiles=False)
    sizes = list(tiled_groups(done))
    assert any(size.columns < group.size[1] for group, size in sizes)
    assert not list(tiled_groups(whole))
    assert main_bytes(done.schedule) < main_bytes(whole.schedule)


def test_schedules_with_groups_in_tiles_are_read_back_from_text() -> None:
    done = compiled("cvsram=8k")
    text = print_frontier(done.frontier)
    assert " tiles cost" in text
    source = band_source(done.request.target, done.request.accelerators)
    assert print_frontier(read_frontier(text, done.parts, source)) == text


def test_a_tile_one_column_short_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = LayerGroup._needed  # pyright: ignore[reportPrivateUsage]

    def short(group: LayerGroup, interval: Any, *, by_columns: bool) -> Spans:
        spans = dict(needed(group, interval, by_columns=by_columns))
        first = group.layers[0].output
        lower, upper = spans[first]
        # three columns remain, for a window of the second layer
        if by_columns and lower + 3 < upper < group.tensors[first].width:
            spans[first] = lower, upper - 1
        return spans

    monkeypatch.setattr(LayerGroup, "_needed", short)
    done = freshly_compiled("cvsram=8k")
    stated = engine_cycles(done.schedule), main_bytes(done.schedule)
    assert any("differing elements" in one for one in disagreements(done, *stated))


def test_a_bank_conflict_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def unchanged(problem: PlacementProblem, bank_bytes: int) -> PlacementProblem:
        return problem

    monkeypatch.setattr(placing, "in_whole_banks", unchanged)
    done = freshly_compiled(BANKED, tiles=False)
    (inputs,) = api.drawn_sets(done, 1)
    with pytest.raises(BackendError, match=r"reads and writes bank \d of the memory"):
        Machine(done.program).run(inputs)


def test_live_buffers_share_no_bank() -> None:
    buffers = tuple(LiveBuffer(f"t{k}", k, k + 2, 5 + k, 1) for k in range(4))
    whole = in_whole_banks(PlacementProblem(buffers), 4)
    assert [(b.size_bytes, b.alignment) for b in whole.buffers] == [(8, 4), (8, 4), (8, 4), (8, 4)]


def test_cascades_are_refused_beside_banks() -> None:
    options = Options(partition="cascades")
    request = api.request(
        NETWORK, "host", accelerators=("nvdla:config=large,banked=True",), options=options
    )
    with pytest.raises(UsageError, match="do not assign rows to the banks"):
        compile_request(request)


def test_tiles_compute_every_element_that_later_layers_read() -> None:
    for group, size in tiled_groups(compiled("cvsram=8k")):
        for by_columns, every in ((False, group.rows(size)), (True, group.columns(size))):
            for spans in every:
                for layer in group.layers:
                    for task, names in layer.tasks:
                        counts = [set[int]() for _ in names]
                        for out in range(*spans[layer.output]):
                            counts[0] |= taps(task, out, by_columns=by_columns)
                            for found in counts[1:]:
                                found.add(out)
                        for name, found in zip(names, counts, strict=True):
                            assert found <= set(range(*spans[name]))
        plan = tile_plan(group, size, 8)
        shapes = group.tile_shapes(size)
        used = np.zeros((len(group.layers), plan.size_bytes), np.int64)
        for name, offset in plan.offsets.items():
            tensor = group.tensors[name]
            assert tensor.writer is not None
            n = shapes[name][0] * shapes[name][1] * tensor.packs * group.atom_bytes
            used[tensor.writer : tensor.last + 1, offset : offset + n] += 1
        assert used.max() <= 1


def taps(task: Any, out: int, *, by_columns: bool) -> set[int]:
    """The rows or columns of the input that an output row or column reads, element by element."""
    if by_columns:
        kernel, stride, dilation = task.kernel_w, task.stride_w, task.dilation_w
        pad, count = task.pad_left, task.in_w
    else:
        kernel, stride, dilation = task.kernel_h, task.stride_h, task.dilation_h
        pad, count = task.pad_top, task.in_h
    read = {out * stride - pad + k * dilation for k in range(kernel)}
    return {k for k in read if 0 <= k < count}


def test_intervals_cover_an_axis() -> None:
    for count in range(1, 20):
        for most in range(1, 20):
            found = list(intervals(count, most))
            assert [k for lower, upper in found for k in range(lower, upper)] == list(range(count))
            assert max(upper - lower for lower, upper in found) <= most
