"""Convolutions cut for the convolution buffer: the pieces compute what the whole does, fit, and
fetch no row twice."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import nvdla_judge as judge
from penstock.errors import CapacityError
from penstock_nvdla.configurations import SMALL
from penstock_nvdla.cut import Convolution, hardware_layers
from penstock_nvdla.layer import (
    Conversion,
    ConvolutionLayer,
    NvdlaMemory,
    Padding,
    ResidentWeights,
    Surface,
)
from penstock_nvdla.model import execute
from penstock_nvdla.packing import pack_features, pack_weights, unpack_features
from penstock_nvdla.stream import convolution_writes, to_bytes

TINY = replace(SMALL, name="tiny", banks=8, bank_entries=24)
"""A buffer of eight banks of 192 bytes."""
OUTPUT_AT, WEIGHTS_AT = 0x8000, 0x10000


@st.composite
def convolutions(draw: st.DrawFn) -> Convolution:
    """Of a buffer that holds a few of their rows."""
    kernel = [draw(st.integers(1, 3)) for _ in range(2)]
    dilation = [draw(st.integers(1, 2)) for _ in range(2)]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    pads = [[draw(st.integers(0, r - 1)) for r in reach] for _ in range(2)]
    size = [draw(st.integers(1, n)) for n in (30, 8)]
    assume(all(s + a + b >= r for s, a, b, r in zip(size, *pads, reach, strict=True)))
    return Convolution(
        TINY, size[1], size[0], draw(st.integers(1, 12)), draw(st.integers(1, 10)),
        kernel[1], kernel[0], Surface.packed(size[1], size[0], 8),
        Surface.packed(20, 40, 8, OUTPUT_AT), WEIGHTS_AT,
        stride_x=draw(st.integers(1, 3)), stride_y=draw(st.integers(1, 3)),
        dilation_x=dilation[1], dilation_y=dilation[0],
        padding=Padding(pads[0][1], pads[1][1], pads[0][0], pads[1][0]),
        pad_value=draw(st.integers(-128, 127)), conversion=Conversion(shift=7),
    )  # fmt: skip


def layers_of(convolution: Convolution) -> tuple[ConvolutionLayer, ...]:
    """None where the buffer has no room for a row."""
    try:
        return hardware_layers(convolution)
    except CapacityError:
        return ()


def computed(
    convolution: Convolution, layers: Iterable[ConvolutionLayer], image: Any, weights: Any
) -> Any:
    """What the layers leave in memory."""
    memory = np.zeros(1 << 17, np.uint8)
    pack_features(memory, convolution.source, image, 8)
    packed = np.frombuffer(pack_weights(weights, TINY), np.uint8)
    memory[WEIGHTS_AT : WEIGHTS_AT + packed.size] = packed
    stream = b"".join(to_bytes(convolution_writes(one)) for one in layers)
    execute(stream, {NvdlaMemory.MAIN: memory}, convolution.hardware)
    first = next(iter(layers))
    shape = (convolution.out_height, first.out_width, convolution.kernels)
    return unpack_features(memory, convolution.output, shape, 8)


@settings(max_examples=300, deadline=None)
@given(convolution=convolutions(), seed=st.integers(0, 2**32))
def test_pieces_compute_the_whole(convolution: Convolution, seed: int) -> None:
    layers = layers_of(convolution)
    assume(layers)
    generator = np.random.default_rng(seed)
    c = convolution
    image = generator.integers(-128, 128, (c.height, c.width, c.channels), np.int8)
    weights = generator.integers(
        -128, 128, (c.kernels, c.kernel_height, c.kernel_width, c.channels), np.int8
    )
    found = computed(convolution, layers, image, weights)
    sums = judge.convolution(
        image.tolist(), weights.tolist(), found.shape, c.pad_value,
        window=(c.kernel_height, c.kernel_width), stride=(c.stride_y, c.stride_x),
        dilation=(c.dilation_y, c.dilation_x), before=(c.padding.top, c.padding.left),
    )  # fmt: skip
    expected = np.clip(np.array([[[(abs(x) + 64) // 128 * (1 if x > 0 else -1) for x in p]
                                  for p in row] for row in sums]), -128, 127)  # fmt: skip
    assert (found == expected).all()


@settings(max_examples=300, deadline=None)
@given(convolution=convolutions())
def test_pieces_fit_and_cover_all_rows(convolution: Convolution) -> None:
    layers = layers_of(convolution)
    assume(layers)
    demand = convolution.demand
    assert sum(layer.out_height for layer in layers) == convolution.out_height
    assert all(layer.hardware is TINY for layer in layers)
    for layer in layers:
        assert demand.data_banks(layer.height) <= layer.data_banks
        assert layer.data_banks + layer.weight_banks <= TINY.banks
    for before, layer in pairwise(layers):
        assert layer.kept_rows == before.height - before.release


def test_rows_that_overlap_stay_and_are_fetched_once() -> None:
    convolution = Convolution(
        TINY, 8, 30, 8, 4, 3, 3, Surface.packed(8, 30, 8), Surface.packed(8, 30, 8, OUTPUT_AT),
        WEIGHTS_AT, padding=Padding(1, 1, 1, 1),
    )  # fmt: skip
    layers = hardware_layers(convolution)
    assert [layer.kept_rows for layer in layers] == [0, *[2] * (len(layers) - 1)]
    assert sum(layer.fetched_rows for layer in layers) == 30
    assert [layer.reuse.weights for layer in layers] == [False, *[True] * (len(layers) - 1)]
    # Three banks for 288 bytes of weights and 128 behind: five are left, of three rows each.
    assert [layer.height for layer in layers] == [15, 15, 4]


def test_columns_and_rows_that_no_window_reads_are_left_out() -> None:
    convolution = Convolution(
        SMALL, 56, 56, 64, 8, 1, 1, Surface.packed(56, 56, 8), Surface.packed(28, 28, 8, OUTPUT_AT),
        WEIGHTS_AT, stride_x=2, stride_y=2,
    )  # fmt: skip
    layers = hardware_layers(convolution)
    assert {layer.width for layer in layers} == {55}
    assert [layer.out_width for layer in layers] == [28] * len(layers)
    assert sum(layer.out_height for layer in layers) == 28


def test_weights_that_do_not_all_fit_are_fetched_for_every_piece() -> None:
    convolution = Convolution(
        TINY, 8, 30, 8, 40, 3, 3, Surface.packed(8, 30, 8), Surface.packed(8, 30, 8, OUTPUT_AT),
        WEIGHTS_AT, padding=Padding(1, 1, 1, 1),
    )  # fmt: skip
    layers = hardware_layers(convolution)
    assert len(layers) > 1
    assert not any(layer.reuse.weights or layer.reuse.keep_weights for layer in layers)
    assert convolution.demand.weight_banks(ResidentWeights.ALL) > TINY.banks


def test_a_buffer_too_small_for_a_row_is_an_error() -> None:
    convolution = Convolution(
        TINY, 100, 3, 8, 8, 3, 3, Surface.packed(100, 3, 8), Surface.packed(98, 1, 8, OUTPUT_AT),
        WEIGHTS_AT,
    )  # fmt: skip
    with pytest.raises(CapacityError, match="the input rows of a kernel"):
        hardware_layers(convolution)
