"""A tiling walked through step by step: what it loads and stores is what it says it moves."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from drawn_layers import drawn

from penstock.errors import CapacityError, UsageError
from penstock.tiling.layer import Axis, Dimension, Layer, LayerOperand, Scratchpads
from penstock.tiling.least_traffic import LeastTraffic, axis_table, table_of_cut
from penstock.tiling.nest import TileShape, Tiling, cut_axis, innermost_depths, intervals
from tile_layers import convolution


def drawn_tilings() -> list[tuple[int, Tiling]]:
    found: list[tuple[int, Tiling]] = []
    for seed in range(120):
        layer, scratchpads = drawn(seed)
        try:
            found.append((seed, LeastTraffic().tile(layer, scratchpads)))
        except CapacityError:
            continue
    return found


TILINGS = drawn_tilings()


def test_steps_move_what_the_tiling_says_it_moves() -> None:
    for seed, tiling in TILINGS:
        output = tiling.layer.output
        sizes, elements = 0, dict.fromkeys((o.name for o in tiling.layer.operands), 0)
        copies = dict.fromkeys(elements, 0)
        for step in tiling.steps():
            for copy in (*step.loads, *step.stores):
                wide = copy.partial and copy.operand is output
                each = output.unfinished_bytes if wide else copy.operand.element_bytes
                sizes += copy.region.elements * each
                elements[copy.operand.name] += copy.region.elements
                copies[copy.operand.name] += 1
        assert sizes == tiling.bytes, f"seed {seed}"
        assert [m.elements for m in tiling.moved] == list(elements.values()), f"seed {seed}"
        assert [m.copies for m in tiling.moved] == list(copies.values()), f"seed {seed}"


def test_every_point_is_computed_once_and_every_element_is_stored_complete_once() -> None:
    for seed, tiling in TILINGS:
        points = np.zeros([axis.extent for axis in tiling.layer.axes], int)
        stored = np.zeros(tiling.layer.output.shape, int)
        for step in tiling.steps():
            box = (step.box[axis.name] for axis in tiling.layer.axes)
            points[tuple(slice(*interval) for interval in box)] += 1
            for copy in step.stores:
                stored[copy.region.slices] += not copy.partial
        assert (points == 1).all(), f"seed {seed}"
        assert (stored == 1).all(), f"seed {seed}"


def test_what_a_step_reads_is_held_and_fits() -> None:
    for seed, tiling in TILINGS:
        held = {}
        for step in tiling.steps():
            held |= {copy.operand.name: copy.region for copy in step.loads}
            held[tiling.layer.output.name] = tiling.region(tiling.layer.output, step.box)
            room = dict.fromkeys((m.name for m in tiling.scratchpads.scratchpads), 0)
            for operand in tiling.layer.operands:
                for d, interval in zip(
                    operand.dimensions, held[operand.name].intervals, strict=True
                ):
                    lower, upper = d.needs(step.box[d.axis]) if d.axis else (0, d.size)
                    inside = interval[0] <= lower and upper <= interval[1]
                    assert inside or lower == upper, f"seed {seed}"
                size = held[operand.name].elements * operand.element_bytes
                room[tiling.scratchpads.of(operand.role).name] += size
            for memory in tiling.scratchpads.scratchpads:
                assert room[memory.name] <= memory.size_bytes, f"seed {seed}"


def test_the_table_of_an_axis_measures_as_dimensions_do() -> None:
    for seed in range(60):
        layer, scratchpads = drawn(seed)
        for axis in layer.axes:
            table = axis_table(layer, scratchpads, axis)
            for r in range(table.rows):
                cut = cut_axis(axis.extent, *table.shapes[r].tolist())
                one = table_of_cut(layer, scratchpads, axis, cut)
                assert one.measured[0, 0] == len(intervals(cut))
                assert (one.measured[0] == table.measured[r]).all()


def test_a_tiling_shows_its_loops() -> None:
    layer = convolution((1, 32, 64, 32), 1024, (2, 2))
    order = tuple("nhwkc")
    cuts = TileShape((1, 7, 64, 256, 32)).cuts([axis.extent for axis in layer.axes])
    tiling = Tiling(layer, Scratchpads.shared(1 << 22), cuts, order, innermost_depths(layer, order))
    assert str(tiling) == (
        "convolution: 20 tiles, 5,652,480 bytes, 269,162,950 cycles\n"
        "  x  1 x 32 x 64 x 32: 73,728 elements in 5 copies of 5 runs, 32,768 bytes held\n"
        "  w  1024 x 2 x 2 x 32: 655,360 elements in 20 copies of 20 runs, 65,536 bytes held\n"
        "  y  1 x 32 x 64 x 1024: 2,097,152 elements in 20 copies of 8,192 runs, "
        "229,376 bytes held\n"
        "  for h in 5 x 4-7\n"
        "    load x\n"
        "    for k in 4 x 256\n"
        "      load w\n"
        "      compute\n"
        "      store y"
    )
    assert tiling.bytes == 2 * (73_728 + 5 * 131_072 + 2_097_152)
    by_hand = 45 * 100 + 2 * (5 + 20 + 8192) + prod((32, 64, 1024, 32, 4)) + tiling.bytes // 8
    assert tiling.cycles == by_hand


LINE = (Dimension(4, "c"),)
PLAIN = LayerOperand("y", "output", LINE)


@pytest.mark.parametrize(
    ("axes", "inputs", "output", "words"),
    [
        ((Axis("c", 4), Axis("c", 4)), (), PLAIN, "same name"),
        ((Axis("c", 4, least=5),), (), PLAIN, "at least 5"),
        ((Axis("c", 4),), (LayerOperand("x", "input", (Dimension(3, "d"),)),), PLAIN, '"d"'),
        (
            (Axis("c", 4),),
            (LayerOperand("x", "input", LINE * 2),),
            PLAIN,
            "one axis indexes two dimensions",
        ),
        (
            (Axis("c", 4),),
            (LayerOperand("x", "input", (Dimension(4, "c", 0),)),),
            PLAIN,
            "factor is not positive",
        ),
        ((Axis("c", 4),), (LayerOperand("x", "input", LINE, 0),), PLAIN, "below 1"),
        ((Axis("c", 5),), (), PLAIN, "not the axis itself"),
    ],
)
def test_a_layer_that_contradicts_itself_is_refused(
    axes: tuple[Axis, ...], inputs: tuple[LayerOperand, ...], output: LayerOperand, words: str
) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        Layer("wrong", axes, inputs, output)
    assert caught.value.code == "tiling-001"
