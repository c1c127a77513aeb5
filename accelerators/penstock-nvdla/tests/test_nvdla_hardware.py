"""The functional model does as NVIDIA's RTL does: a stream that is wrong there is wrong here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from penstock.errors import PenstockError, UnsupportedError
from penstock_nvdla.configurations import LARGE, SMALL, NvdlaConfiguration
from penstock_nvdla.cut import Convolution, hardware_layers
from penstock_nvdla.layer import (
    Accumulators,
    ConvolutionLayer,
    NvdlaMemory,
    Padding,
    ResidentWeights,
    Reuse,
    Surface,
    allocate,
)
from penstock_nvdla.model import execute
from penstock_nvdla.packing import pack_features, pack_weights, unpack_features
from penstock_nvdla.pdp import PoolingLayer, PoolingMethod
from penstock_nvdla.stream import Write, convolution_writes, pooling_writes, to_bytes

Array = np.ndarray[Any, Any]
OUTPUT_AT, WEIGHTS_AT, OTHERS_AT = 0x10000, 0x20000, 0x28000
RANDOM = np.random.default_rng(43)


def executed(
    writes: Iterable[Write], image: Array, weights: Iterable[Array], chip: NvdlaConfiguration
) -> Array:
    """The memory after a stream; the image lies at 0, weights at `WEIGHTS_AT` and `OTHERS_AT`."""
    memory = np.full(1 << 18, 0x5A, np.uint8)
    rows, columns, _ = image.shape
    atom = chip.memory_atom_bytes
    pack_features(memory, Surface.packed(columns, rows, atom), image, atom)
    for at, some in zip((WEIGHTS_AT, OTHERS_AT), weights, strict=False):
        packed = np.frombuffer(pack_weights(some, chip), np.uint8)
        memory[at : at + packed.size] = packed
    execute(to_bytes(writes), {NvdlaMemory.MAIN: memory}, chip)
    return memory


def convolution(chip: NvdlaConfiguration = SMALL, **changes: Any) -> ConvolutionLayer:
    """4x4 with one pack of channels, as many kernels of 1x1."""
    atom = chip.memory_atom_bytes
    layer = ConvolutionLayer(
        chip, 4, 4, atom, 3, 1, 1, Surface.packed(4, 4, atom),
        Surface.packed(4, 4, atom, OUTPUT_AT), Accumulators(0, 0), data_banks=1, weight_banks=1,
        release=4, weight_address=WEIGHTS_AT,
    )  # fmt: skip
    return replace(layer, **changes)


@pytest.mark.parametrize("chip", [SMALL, LARGE], ids=lambda chip: chip.name)
def test_weights_padded_beyond_an_entry_shift_those_of_the_next_layer(
    chip: NvdlaConfiguration,
) -> None:
    """The core releases the entries that it read, and its reader stays behind the writer."""
    atom = chip.memory_atom_bytes
    image = RANDOM.integers(-3, 4, (4, 4, atom), np.int8)
    weights = [RANDOM.integers(-3, 4, (3, 1, 1, atom), np.int8) for _ in range(2)]
    second = convolution(
        chip, weight_address=OTHERS_AT, output=Surface.packed(4, 4, atom, OUTPUT_AT + 0x1000)
    )
    found = []
    for padding in (0, 128):
        first = convolution(chip, weight_padding=padding)
        stream = (*convolution_writes(first), *convolution_writes(second))
        found.append(executed(stream, image, weights, chip))
    one = slice(OUTPUT_AT, OUTPUT_AT + 0x1000)
    other = slice(OUTPUT_AT + 0x1000, OUTPUT_AT + 0x2000)
    assert (found[0][one] == found[1][one]).all()
    sums = image.astype(int) @ weights[1][:, 0, 0].astype(int).T
    expected = np.clip(sums, -128, 127)
    for memory, right in zip(found, (True, False), strict=True):
        results = unpack_features(memory, second.output, (4, 4, 3), atom)
        assert bool((results == expected).all()) is right
    assert (found[0][other] != found[1][other]).any()


def test_another_allocation_of_banks_empties_the_buffer() -> None:
    image = RANDOM.integers(-3, 4, (4, 4, 8), np.int8)
    weights = [RANDOM.integers(-3, 4, (3, 1, 1, 8), np.int8) for _ in range(2)]
    first = convolution(weight_padding=128)
    second = convolution(weight_address=OTHERS_AT, weight_banks=2)
    memory = executed(
        (*convolution_writes(first), *convolution_writes(second)), image, weights, SMALL
    )
    results = unpack_features(memory, second.output, (4, 4, 3), 8)
    assert (results == image.astype(int) @ weights[1][:, 0, 0].astype(int).T).all()


def test_weight_bytes_are_whole_entries_of_the_buffer() -> None:
    assert convolution(SMALL, kernels=1).weight_bytes == 8
    assert convolution(SMALL, channels=7).weight_bytes == 24
    assert convolution(LARGE, kernels=1).weight_bytes == 64


def test_rows_that_are_neither_released_nor_used_are_refused() -> None:
    stream = (
        *convolution_writes(convolution(release=2)),
        *convolution_writes(convolution()),
    )
    with pytest.raises(PenstockError, match="2 rows that the layer before left"):
        executed(stream, np.zeros((4, 4, 8), np.int8), [np.zeros((3, 1, 1, 8))], SMALL)


def average(rows: int, columns: int, factor_x: int, factor_y: int) -> PoolingLayer:
    """The mean of a whole image of 8 channels."""
    return PoolingLayer(
        PoolingMethod.AVERAGE, columns, rows, 8, columns, rows, Surface.packed(columns, rows, 8),
        Surface.packed(1, 1, 8, OUTPUT_AT), factor_x=factor_x, factor_y=factor_y,
    )  # fmt: skip


@pytest.mark.parametrize(("factors", "right"), [((1 << 10, 1 << 16), True),
                                                ((1 << 16, 1 << 10), False)])  # fmt: skip
def test_an_average_keeps_eleven_bits_after_the_first_factor(
    factors: tuple[int, int], right: bool
) -> None:
    image = np.full((8, 8, 8), 100, np.int8)
    memory = executed(pooling_writes(average(8, 8, *factors)), image, [], SMALL)
    assert bool((memory[OUTPUT_AT : OUTPUT_AT + 8] == 100).all()) is right


def pool(width: int, kernel: int, stride: int) -> PoolingLayer:
    """A maximum over windows of kernel x kernel, whose output has `width` columns."""
    columns = (width - 1) * stride + kernel
    return PoolingLayer(
        PoolingMethod.LARGEST, columns, 9, 8, kernel, kernel, Surface.packed(columns, 9, 8),
        Surface.packed(width, 9, 8), stride, stride,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kernel", "stride", "widest"),
    [(2, 2, 128), (2, 3, 128), (3, 2, 64), (2, 1, 64), (3, 1, 32), (4, 1, 32), (7, 2, 32),
     (5, 3, 64), (7, 3, 32), (8, 4, 64), (8, 1, 16)],
)  # fmt: skip
def test_the_line_buffer_limits_the_columns_of_a_pool(
    kernel: int, stride: int, widest: int
) -> None:
    """It stores partial results of 128 points, for all windows that a row of the input is in."""
    pool(widest, kernel, stride)
    with pytest.raises(UnsupportedError, match=f"{widest + 1} columns"):
        pool(widest + 1, kernel, stride)


# Faults: a convolution in two hardware layers, of which the second takes over rows and weights.


def in_two() -> tuple[ConvolutionLayer, ConvolutionLayer]:
    """Nine rows in two layers; the second takes two rows and the weights from the buffer."""
    source, output = Surface.packed(5, 9, 8), Surface.packed(5, 9, 8, OUTPUT_AT)
    whole = Convolution(SMALL, 5, 9, 8, 3, 3, 3, source, output, WEIGHTS_AT,
                        padding=Padding(1, 1, 1, 1))  # fmt: skip
    split = allocate(whole.demand)
    assert split.weights is ResidentWeights.ALL
    first, second = hardware_layers(whole, replace(split, rows=6))
    return first, second


Pair = tuple[ConvolutionLayer, ConvolutionLayer]
FAULTS: dict[str, Callable[[ConvolutionLayer, ConvolutionLayer], Pair]] = {
    "another number of banks for data": lambda a, b: (a, replace(b, data_banks=2)),
    "another number of banks for weights": lambda a, b: (a, replace(b, weight_banks=3)),
    "reuse of weights that were not kept": lambda a, b: (replace(a, reuse=Reuse()), b),
    "rows released that the next layer takes over": lambda a, b: (replace(a, release=a.height), b),
    "rows kept that the next layer fetches": lambda a, b: (
        a,
        replace(b, kept_rows=0, source=replace(b.source, address=b.source.address - 80)),
    ),
    "data reused in place of rows": lambda a, b: (
        a, replace(b, kept_rows=0, reuse=replace(b.reuse, data=True)),
    ),
    "data kept in place of rows": lambda a, b: (
        replace(a, reuse=replace(a.reuse, keep_data=True)), b,
    ),
    "weights padded, and fetched by the next layer": lambda a, b: (
        replace(a, weight_padding=128, reuse=Reuse()), replace(b, reuse=Reuse()),
    ),
    "a wrong pitch of input lines": lambda a, b: (
        a, replace(b, source=replace(b.source, line_stride=48)),
    ),
    "a wrong pitch of output lines": lambda a, b: (
        a, replace(b, output=replace(b.output, line_stride=48)),
    ),
    "the next layer reads a row too late": lambda a, b: (
        a, replace(b, source=replace(b.source, address=b.source.address + 40)),
    ),
    "a row too few released": lambda a, b: (replace(a, release=a.release - 1), b),
    "the padding of the layer before": lambda a, b: (
        a, replace(b, padding=Padding(1, 1, 1, 0)),
    ),
}  # fmt: skip


def results(layers: Iterable[ConvolutionLayer]) -> Array | str:
    """The output of the two layers, or what the model refuses."""
    random = np.random.default_rng(7)
    image = random.integers(-3, 4, (9, 5, 8), np.int8)
    weights = random.integers(-3, 4, (3, 3, 3, 8), np.int8)
    try:
        stream = [write for layer in layers for write in convolution_writes(layer)]
        memory = executed(stream, image, [weights], SMALL)
    except PenstockError as error:
        return error.what
    return unpack_features(memory, Surface.packed(5, 9, 8, OUTPUT_AT), (9, 5, 3), 8)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_shows_in_the_model(fault: str) -> None:
    right, wrong = results(in_two()), results(FAULTS[fault](*in_two()))
    assert not isinstance(right, str)
    assert isinstance(wrong, str) or (wrong != right).any()
