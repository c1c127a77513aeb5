"""The data of memory figures: the same area in fewer rectangles, columns, layers of blocks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from embedded_data import plain
from hypothesis import given
from hypothesis import strategies as st
from small_compilation import make_example, of_steps, span

from penstock import api
from penstock.reports.layer import model_layers
from penstock.reports.page.data import column_widths, memory_data, stretches
from penstock.reports.timeline import LivePiece, MemorySpan, Stretch, Timeline, merged_areas
from penstock.scheduling.options import Options

SIDE = 12
CELLS = st.lists(st.tuples(*[st.integers(0, SIDE - 1)] * 2), unique=True, min_size=1, max_size=40)


@given(CELLS)
def test_merged_areas_cover_what_the_pieces_cover_once(cells: list[tuple[int, int]]) -> None:
    pieces = [LivePiece(byte, byte + 1, tick, tick + 1) for byte, tick in cells]
    covered = np.zeros((SIDE, SIDE), np.int64)
    for lower, upper, born, dead in merged_areas(pieces):
        covered[lower:upper, born:dead] += 1
    assert {(int(b), int(t)) for b, t in zip(*covered.nonzero(), strict=True)} == set(cells)
    assert covered.max() == 1


def test_rows_of_a_ring_become_one_rectangle() -> None:
    rows = [LivePiece(64 * (k % 3), 64 * (k % 3) + 64, k + 1, k + 4) for k in range(12)]
    assert len(merged_areas(rows)) == 3  # a rectangle per slot, since they begin one by one
    whole = [LivePiece(8 * k, 8 * k + 8, 0, 5) for k in range(4)]
    assert merged_areas(whole) == ((0, 32, 0, 5),)


def test_cascades_take_half_of_the_columns_where_they_are_few_but_not_more_than_fourfold() -> None:
    def columns(whole: int) -> tuple[float, ...]:
        return column_widths([(2, 0), *[(1, None)] * whole])

    assert columns(1)[0] == 2.0
    assert columns(6) == (6.0,) + (1.0,) * 6
    assert columns(100)[0] == 8.0


def test_live_bytes_do_not_count_holes() -> None:
    spans = (
        span("low", "arena", 0, 100, -1, 0),
        span("later", "arena", 0, 80, 1, 1),
        span("above a hole", "arena", 200, 300, 0, 0),
    )
    found = plain(memory_data(of_steps(spans, 1), (), None))
    assert found["live"] == [[0, 100], [1, 200], [2, 80]]
    assert [found[key] for key in ("peak_bytes", "peak_tick", "height_bytes")] == [200, 1, 300]


def test_blocks_belong_to_the_layers_that_write_them_or_that_a_cascade_runs() -> None:
    pieces = (LivePiece(0, 8, 1, 5),)
    spans = (
        MemorySpan("x", "io", pieces),
        MemorySpan("a", "arena", pieces, ("a",)),
        MemorySpan("s", "scratch", (LivePiece(8, 16, 2, 6),)),
        MemorySpan("c", "constant", (LivePiece(16, 24, 1, 7),)),
    )
    timeline = Timeline(spans, (Stretch(1, 1, (0, 0), None), Stretch(3, 5, (1, 3), 0)))
    first = make_example().layers[0]
    steps = [
        replace(first, name=name, step=k, cascade=0 if k else None) for k, name in enumerate("abcb")
    ]
    layers = model_layers([replace(one, origin=one.name) for one in steps])
    found = plain(memory_data(timeline, layers, 100))
    assert [block["layers"] for block in found["blocks"]] == [[], [0], [1, 2], [1, 2]]
    assert found["budget_bytes"] == 100
    drawn = plain(stretches(timeline.stretches, layers))
    assert [one["layers"] for one in drawn] == [[0], [1, 2]]


@pytest.mark.parametrize("model", ["zoo:resnet8", "zoo:lenet5"])
def test_stretches_and_blocks_of_a_compiled_network_refer_to_its_layers(model: str) -> None:
    by_rows = Options(max_recompute=1.0)
    first = api.compile(model, "cortex-m4", options=by_rows)
    least = first.report.frontier[0].ram_bytes
    done = api.compile(model, "cortex-m4", sram=least, options=by_rows)
    layers, timeline = done.model_layers, done.timelines[0]
    drawn = plain(stretches(timeline.stretches, layers))
    for stretch in drawn:
        own = [step for k in stretch["layers"] for step in layers[k].steps]
        own = [step for step in own if step.cascade == stretch["cascade"]]
        if stretch["cascade"] is not None:
            calls = sum(step.calls for step in own)
            assert calls == stretch["calls"] == stretch["kernel_calls"]
        assert own
    total = sum(stretch["kernel_calls"] for stretch in drawn)
    assert total == sum(step.calls for layer in layers for step in layer.steps)
    blocks = plain(memory_data(timeline, layers, None))["blocks"]
    written = {k for block in blocks if block["kind"] != "scratch" for k in block["layers"]}
    assert written == set(range(len(layers)))
