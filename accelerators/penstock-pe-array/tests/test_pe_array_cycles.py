"""Cycles of PE arrays, against sums by hand and a simulation of every element."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_pe_array.dataflow import depthwise_cycles, product_cycles
from penstock_pe_array.hardware import Buffer, Dataflow, Hardware
from penstock_pe_array.timeline import Timeline

FAST = Buffer(16384, 4096, 0)
SMALL = Hardware(2, 2, input=FAST, weights=FAST, output=FAST)
"""Two by two elements, which never wait for a buffer."""


@pytest.mark.parametrize(
    ("dataflow", "cycles"),
    [
        # 2 r + c + t - 2 of each fold: depth 2 + 1 by outputs 2 + 2 + 1, 4 pixels.
        (Dataflow.WEIGHT_STATIONARY, 2 * 8 + 7 + 2 * 6 + 5),
        # pixels 2 + 2 by outputs 2 + 2 + 1, a depth of 3.
        (Dataflow.OUTPUT_STATIONARY, 2 * (2 * 7 + 6)),
        # depth 2 + 1 by pixels 2 + 2, 5 outputs.
        (Dataflow.INPUT_STATIONARY, 2 * 9 + 2 * 7),
    ],
)
def test_a_product_of_four_pixels_three_inputs_and_five_outputs(
    dataflow: Dataflow, cycles: int
) -> None:
    assert product_cycles(replace(SMALL, dataflow=dataflow), 4, 3, 5) == cycles


def test_the_example_of_the_guide() -> None:
    wide = Buffer(16384, 32, 0)
    hardware = Hardware(8, 8, input=wide, weights=wide, output=wide)
    assert product_cycles(hardware, 100, 8, 16) == 2 * (8 + 99 + 15)


def test_a_slow_buffer_delays_every_step() -> None:
    """One fold of 2 x 2 weights, 4 pixels.  Fast: 2 + 3 + 2 + 2 - 1 = 8 cycles.  Two sums take 8
    bytes a step; at 3 bytes per cycle these are 3 cycles, so 3 steps take 2 cycles more each."""
    assert product_cycles(SMALL, 4, 2, 2) == 8
    assert product_cycles(replace(SMALL, output=Buffer(4096, 3, 0)), 4, 2, 2) == 8 + 3 * 2
    assert product_cycles(replace(SMALL, weights=Buffer(4096, 1, 0)), 4, 2, 2) == 8 + 2 * 1


def test_latencies_count_once_for_each_fold() -> None:
    """Of the buffer that the elements are loaded from, and of the slower of the other two."""
    slow = replace(SMALL, input=Buffer(64, 4096, 5), output=Buffer(64, 4096, 3))
    slow = replace(slow, weights=Buffer(64, 4096, 7))
    for dataflow, latency in zip(Dataflow, (7 + 5, 3 + 7, 5 + 7), strict=True):
        hardware = replace(slow, dataflow=dataflow)
        fast = replace(SMALL, dataflow=dataflow)
        assert product_cycles(hardware, 2, 2, 2) == product_cycles(fast, 2, 2, 2) + latency
        assert product_cycles(hardware, 2, 4, 2) == product_cycles(fast, 2, 4, 2) + latency * (
            1 if dataflow is Dataflow.OUTPUT_STATIONARY else 2
        )


def simulated(hardware: Hardware, pixels: int, depth: int, outputs: int) -> int:
    """The cycles of a product, one multiplication after the other.

    Each is in a fold, in an element, and at a step.  What an element holds is in it for all steps
    of a fold, and everything else passes: it is counted where it enters the array."""
    folds: dict[tuple[int, int], set[tuple[int, int, int]]] = {}
    for pixel, d, o in product(range(pixels), range(depth), range(outputs)):
        row, column, step = {
            Dataflow.WEIGHT_STATIONARY: (d, o, pixel),
            Dataflow.OUTPUT_STATIONARY: (pixel, o, d),
            Dataflow.INPUT_STATIONARY: (d, pixel, o),
        }[hardware.dataflow]
        fold = folds.setdefault((row // hardware.rows, column // hardware.columns), set())
        place = row % hardware.rows, column % hardware.columns, step
        assert place not in fold
        fold.add(place)
    return sum(simulated_fold(hardware, fold) for fold in folds.values())


def simulated_fold(hardware: Hardware, places: set[tuple[int, int, int]]) -> int:
    """The cycles of a fold, whose multiplications are in elements (i, j) at steps."""
    down, across, _ = (sorted(set(axis)) for axis in zip(*places, strict=True))
    x, w, y = (b.bytes_per_cycle for b in (hardware.input, hardware.weights, hardware.output))
    bytes_of = {"x": 1, "w": 1, "y": 4}
    held, from_left, through_columns = {
        Dataflow.WEIGHT_STATIONARY: ("w", "x", "y"),
        Dataflow.OUTPUT_STATIONARY: ("y", "x", "w"),
        Dataflow.INPUT_STATIONARY: ("x", "w", "y"),
    }[hardware.dataflow]
    rates = {"x": x, "w": w, "y": y}

    def cycles(tensor: str, lanes: list[int]) -> int:
        return max(1, math.ceil(sum(bytes_of[tensor] for _ in lanes) / rates[tensor]))

    step_cycles = max(cycles(from_left, down), cycles(through_columns, across))
    moved = sum(cycles(held, across) for _ in down)
    return moved + max(step * step_cycles + i + j + 1 for i, j, step in places)


@given(
    data=st.tuples(*(st.integers(1, 7) for _ in range(5))),
    rates=st.tuples(*(st.integers(1, 9) for _ in range(3))),
    dataflow=st.sampled_from(Dataflow),
)
def test_products_take_the_cycles_of_their_slowest_element(
    data: tuple[int, ...], rates: tuple[int, ...], dataflow: Dataflow
) -> None:
    rows, columns, *extents = data
    x, w, y = (Buffer(64, rate, 0) for rate in rates)
    hardware = Hardware(rows, columns, dataflow, input=x, weights=w, output=y)
    assert product_cycles(hardware, *extents) == simulated(hardware, *extents)


def test_a_depthwise_layer_fills_columns_with_channels() -> None:
    """9 taps in 5 folds of rows, 4 channels in 2 of columns, 10 pixels: 2 r + c + t - 2.

    A weight-stationary array reads r x c inputs a step."""
    folds = 4 * 2 * (2 * 2 + 2 + 10 - 2) + 2 * (2 * 1 + 2 + 10 - 2)
    assert depthwise_cycles(SMALL, 10, 9, 4) == folds
    narrow = replace(SMALL, input=Buffer(64, 2, 0))
    assert depthwise_cycles(narrow, 10, 9, 4) == folds + 4 * 2 * 9  # 4 bytes take 2 cycles
    stationary = replace(SMALL, dataflow=Dataflow.INPUT_STATIONARY)
    assert depthwise_cycles(stationary, 2, 2, 3) == 3 * (2 * 2 + 2 + 1 - 2)


def test_two_banks_hide_copies_behind_computation() -> None:
    """Three tiles, each loaded in 4 cycles, computed in 10 and stored in 3.

    With two banks: 4 + 3 x 10 + 3.  With one: the load of a tile waits for the computation before
    it, and stores overlap with loads: 3 x (4 + 10) + 3."""
    for banks, cycles in ((2, 37.0), (1, 45.0)):
        timeline = Timeline()
        for tile in range(3):
            bank = tile % banks
            timeline.load([(0, bank)], 4)
            timeline.compute([(0, bank)], [(2, bank)], 10)
            timeline.store([(2, bank)], 3)
        assert timeline.end == cycles
        assert timeline.busy == {"array": 30, "read": 12, "write": 9}


def test_a_computation_waits_for_parameters_and_for_stores() -> None:
    """It begins when its parameters are read, at 7; the next one in the same bank, at 17 + 20."""
    timeline = Timeline()
    timeline.load([(0, 0)], 4)
    timeline.parameters(3)
    timeline.compute([(0, 0)], [(2, 0)], 10)
    timeline.store([(2, 0)], 20)
    timeline.compute([(0, 0)], [(2, 0)], 1)
    assert timeline.end == 7 + 10 + 20 + 1
