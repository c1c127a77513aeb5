"""The functional model of NVDLA: what streams leave in memory is what plain Python computes."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import nvdla_judge as judge
from penstock.errors import BackendError, PenstockError
from penstock_nvdla.configurations import LARGE, SMALL, SMALL_256, NvdlaConfiguration
from penstock_nvdla.layer import (
    Accumulators,
    Conversion,
    ConvolutionLayer,
    Demand,
    NvdlaMemory,
    Padding,
    ResidentWeights,
    Reuse,
    Surface,
    allocate,
)
from penstock_nvdla.model import execute
from penstock_nvdla.packing import (
    pack_features,
    pack_weights,
    unpack_features,
    unpack_weights,
)
from penstock_nvdla.stream import Write, convolution_writes, to_bytes

Array = np.ndarray[Any, Any]
OURS = (SMALL, SMALL_256, LARGE)
MEMORY_BYTES = 1 << 18
POISON = 0x5A
OUTPUT_AT, WEIGHTS_AT = 0x10000, 0x20000


@dataclass
class Memories:
    """Both memories, poisoned; features and weights are put where layers look for them."""

    hardware: NvdlaConfiguration

    def __post_init__(self) -> None:
        self.bytes = {m: np.full(MEMORY_BYTES, POISON, np.uint8) for m in NvdlaMemory}

    def put(self, surface: Surface, elements: Array) -> None:
        atom = self.hardware.memory_atom_bytes
        pack_features(self.bytes[surface.memory], surface, elements, atom)

    def put_weights(self, weights: Array) -> None:
        packed = np.frombuffer(pack_weights(weights, self.hardware), np.uint8)
        self.bytes[NvdlaMemory.MAIN][WEIGHTS_AT : WEIGHTS_AT + packed.size] = packed

    def run(self, *writes: Iterable[Write]) -> None:
        stream = to_bytes(write for some in writes for write in some)
        execute(stream, self.bytes, self.hardware)

    def get(self, surface: Surface, shape: tuple[int, int, int]) -> Array:
        """Element by element, as the manual has the layout."""
        atom, memory = self.hardware.memory_atom_bytes, self.bytes[surface.memory]
        found = np.zeros(shape, np.int8)
        for i, j, c in np.ndindex(shape):
            at = surface.address + c // atom * surface.surface_stride
            at += i * surface.line_stride + j * atom + c % atom
            found[i, j, c] = memory[at].astype(np.int8)
        return found


def drawn(draw: st.DrawFn, *shape: int) -> Array:
    """Random int8 elements."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    return generator.integers(-128, 128, shape, np.int8)


def surface(
    draw: st.DrawFn, hardware: NvdlaConfiguration, rows: int, columns: int, address: int
) -> Surface:
    """With gaps between lines and surfaces, in one of both memories."""
    atom = hardware.memory_atom_bytes
    line = (columns + draw(st.integers(0, 2))) * atom
    whole = line * rows + draw(st.integers(0, 2)) * atom
    memories = [NvdlaMemory.MAIN, *[NvdlaMemory.CVSRAM] * (hardware.sram is not None)]
    return Surface(line, whole, address, draw(st.sampled_from(memories)))


@dataclass
class Task:
    """A layer, its operands, and what it does with sums."""

    layer: ConvolutionLayer
    image: Array
    weights: Array

    @property
    def out(self) -> tuple[int, int, int]:
        return self.layer.out_height, self.layer.out_width, self.layer.kernels

    @property
    def window(self) -> dict[str, tuple[int, int]]:
        layer = self.layer
        return {
            "window": (layer.kernel_height, layer.kernel_width),
            "stride": (layer.stride_y, layer.stride_x),
            "dilation": (layer.dilation_y, layer.dilation_x),
            "before": (layer.padding.top, layer.padding.left),
        }

    def memories(self) -> Memories:
        found = Memories(self.layer.hardware)
        found.put(self.layer.source, self.image)
        found.put_weights(self.weights)
        return found

    def sums(self) -> Any:
        pad_value = (self.layer.pad_value + 128) % 256 - 128
        return judge.convolution(
            self.image.tolist(), self.weights.tolist(), self.out, pad_value, **self.window
        )


@st.composite
def tasks(draw: st.DrawFn) -> Task:
    """A small layer with any window."""
    hardware = draw(st.sampled_from(OURS))
    kernel = [draw(st.integers(1, 3)) for _ in range(2)]
    dilation = [draw(st.integers(1, 2)) for _ in range(2)]
    stride = [draw(st.integers(1, 3)) for _ in range(2)]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    out = [draw(st.integers(1, 4)) for _ in range(2)]
    pads, size = [], []
    for axis in range(2):
        needed = (out[axis] - 1) * stride[axis] + reach[axis]
        before = draw(st.integers(0, min(reach[axis] - 1, needed - 1)))
        behind = draw(st.integers(0, min(reach[axis] - 1, needed - 1 - before)))
        pads.append((before, behind))
        size.append(needed - before - behind)
    channels = draw(st.integers(1, 2 * hardware.atomic_c // (1 + (hardware.atomic_c > 32)) + 3))
    kernels = draw(st.integers(1, hardware.atomic_k + 3))
    demand = Demand(
        hardware, size[1], size[0], channels, kernels, kernel[0] * kernel[1], reach[0], stride[0]
    )
    split = allocate(demand)
    assume(split.rows >= size[0])
    layer = ConvolutionLayer(
        hardware, size[1], size[0], channels, kernels, kernel[1], kernel[0],
        source=surface(draw, hardware, size[0], size[1], 0),
        output=surface(draw, hardware, out[0], out[1], OUTPUT_AT),
        accumulators=Accumulators(0, 0, truncate=draw(st.integers(0, 12))),
        data_banks=split.data_banks,
        weight_banks=split.weight_banks,
        release=size[0],
        stride_x=stride[1], stride_y=stride[0], dilation_x=dilation[1], dilation_y=dilation[0],
        padding=Padding(*pads[1], *pads[0]),
        pad_value=draw(st.integers(-128, 127)),
        weight_address=WEIGHTS_AT,
        conversion=Conversion(
            draw(st.integers(-1000, 1000)), draw(st.integers(-50, 50)), draw(st.integers(0, 8))
        ),
    )  # fmt: skip
    return Task(
        layer, drawn(draw, size[0], size[1], channels), drawn(draw, kernels, *kernel, channels)
    )


@settings(max_examples=100, deadline=None)
@given(task=tasks())
def test_nvdla_s_own_conversion_equals_plain_python(task: Task) -> None:
    layer, conversion = task.layer, task.layer.conversion
    memories = task.memories()
    memories.run(convolution_writes(layer))

    def element(total: int) -> int:
        delivered = judge.half_away(Fraction(total, 2**layer.accumulators.truncate))
        product = (delivered - conversion.offset) * conversion.scale
        return judge.limited(judge.half_away(Fraction(product, 2**conversion.shift)), -128, 127)

    expected = [[[element(x) for x in point] for point in row] for row in task.sums()]
    assert memories.get(layer.output, task.out).tolist() == expected


def test_bytes_beside_the_output_stay_as_they_are() -> None:
    layer = plain_layer()
    memories = Memories(OURS[0])
    memories.put(layer.source, np.ones((4, 4, 8), np.int8))
    memories.put_weights(np.ones((3, 1, 1, 8), np.int8))
    before = memories.bytes[NvdlaMemory.MAIN].copy()
    memories.run(convolution_writes(layer))
    changed = np.flatnonzero(memories.bytes[NvdlaMemory.MAIN] != before)
    inside = [OUTPUT_AT + i * 40 + k for i in range(4) for k in range(32)]
    assert changed.tolist() == inside  # five zeros behind three channels, too
    assert memories.get(layer.output, (4, 4, 8))[..., 3:].max() == 0


def plain_layer(**changes: Any) -> ConvolutionLayer:
    """4x4x8, three kernels of 1x1."""
    layer = ConvolutionLayer(
        OURS[0], 4, 4, 8, 3, 1, 1, Surface.packed(4, 4, 8), Surface(40, 160, OUTPUT_AT),
        Accumulators(0, 0), data_banks=1, weight_banks=1, release=4, weight_address=WEIGHTS_AT,
    )  # fmt: skip
    return replace(layer, **changes)


def test_an_input_in_pieces_with_rows_kept_is_the_whole_input() -> None:
    """Nine rows in two hardware layers; two rows stay in the buffer, and weights do."""
    generator = np.random.default_rng(3)
    image = generator.integers(-128, 128, (9, 5, 8), np.int8)
    weights = generator.integers(-8, 8, (3, 3, 3, 8), np.int8)
    surface_in, surface_out = Surface.packed(5, 9, 8), Surface.packed(5, 9, 8, OUTPUT_AT)
    whole = ConvolutionLayer(
        OURS[0], 5, 9, 8, 3, 3, 3, surface_in, surface_out, Accumulators(0, 0),
        data_banks=1, weight_banks=1, release=9, padding=Padding(1, 1, 1, 1),
        weight_address=WEIGHTS_AT, conversion=Conversion(shift=6),
    )  # fmt: skip
    upper = replace(
        whole, height=5, release=3, padding=Padding(1, 1, 1, 0), reuse=Reuse(keep_weights=True)
    )
    assert upper.out_height == 4
    line = surface_in.line_stride
    lower = replace(
        whole, height=6, kept_rows=2, release=6, padding=Padding(1, 1, 0, 1),
        reuse=Reuse(weights=True), source=replace(surface_in, address=5 * line),
        output=replace(surface_out, address=OUTPUT_AT + 4 * line),
    )  # fmt: skip
    answers = []
    for writes in ((convolution_writes(whole),), map(convolution_writes, (upper, lower))):
        memories = Memories(OURS[0])
        memories.put(surface_in, image)
        memories.put_weights(weights)
        memories.run(*writes)
        answers.append(memories.get(surface_out, (9, 5, 3)))
    assert (answers[0] == answers[1]).all()


def test_data_and_weights_that_were_kept_are_not_fetched_again() -> None:
    memories = Memories(OURS[0])
    memories.put(plain_layer().source, np.full((4, 4, 8), 2, np.int8))
    memories.put_weights(np.full((3, 1, 1, 8), 3, np.int8))
    memories.run(convolution_writes(plain_layer(reuse=Reuse(keep_data=True, keep_weights=True))))
    elsewhere = Surface(40, 160, OUTPUT_AT + 0x1000)
    again = plain_layer(reuse=Reuse(data=True, weights=True), output=elsewhere)
    device_writes = (
        convolution_writes(plain_layer(reuse=Reuse(keep_data=True, keep_weights=True))),
        convolution_writes(replace(again, source=Surface(32, 128, 0x8000), weight_address=0x9000)),
    )
    memories.run(*device_writes)
    assert (memories.get(elsewhere, (4, 4, 3)) == 48).all()


REFUSED: tuple[tuple[tuple[Write, ...], str], ...] = (
    (convolution_writes(plain_layer())[-1:], "CDMA is started before"),
    (tuple(w for w in convolution_writes(plain_layer()) if w.starts != "CSC"), "before CSC"),
    (
        (*convolution_writes(plain_layer())[:-1], Write("SDP_RDMA.D_OP_ENABLE", 1)),
        "SDP_RDMA is started beside CACC, CMAC_A",
    ),
    (convolution_writes(plain_layer(reuse=Reuse(data=True))), "a layer reuses data of"),
    (convolution_writes(plain_layer(kept_rows=1)), "in the buffer are none"),
    (
        (
            *convolution_writes(plain_layer(reuse=Reuse(keep_data=True))),
            *convolution_writes(plain_layer(reuse=Reuse(data=True), data_banks=2)),
        ),
        "a layer reuses data in 1 banks, and has 2",
    ),
    (convolution_writes(plain_layer(reuse=Reuse(weights=True))), "reuses weights that are not"),
    (
        convolution_writes(plain_layer(source=Surface(32, 128, MEMORY_BYTES))),
        "a tensor takes bytes",
    ),
    (convolution_writes(plain_layer(weight_address=MEMORY_BYTES)), "a tensor takes bytes"),
    (convolution_writes(plain_layer(channels=9, source=Surface(32, 120))), "overlap"),
)


@pytest.mark.parametrize(("writes", "message"), REFUSED)
def test_a_stream_for_missing_data_is_refused(writes: tuple[Write, ...], message: str) -> None:
    with pytest.raises(BackendError, match=message) as caught:
        Memories(OURS[0]).run(writes)
    assert caught.value.code in ("nvdla-010", "nvdla-012", "nvdla-013")


def test_a_missing_memory_is_an_error() -> None:
    source, output = Surface(128, 512, 0, NvdlaMemory.CVSRAM), Surface(128, 512, OUTPUT_AT)
    layer = plain_layer(hardware=LARGE, source=source, output=output)
    with pytest.raises(BackendError, match="no memory CVSRAM"):
        execute(
            to_bytes(convolution_writes(layer)),
            {NvdlaMemory.MAIN: np.zeros(MEMORY_BYTES, np.uint8)},
            LARGE,
        )


@given(data=st.data())
def test_no_stream_does_harm(data: st.DataObject) -> None:
    """Whatever a word is, memory changes or an error of ours says why not."""
    writes = list(convolution_writes(plain_layer()))
    place = data.draw(st.integers(0, len(writes) - 1))
    writes[place] = replace(writes[place], word=data.draw(st.integers(0, 2**32 - 1)))
    with suppress(PenstockError):
        Memories(OURS[0]).run(writes)


# Layouts.


@given(
    shape=st.tuples(*[st.integers(1, 12)] * 2, st.integers(1, 3), st.integers(1, 150)),
    hardware=st.sampled_from((SMALL, SMALL_256, LARGE)),
)
def test_weights_are_in_the_order_of_the_manual(shape: Any, hardware: NvdlaConfiguration) -> None:
    kernels, rows, columns, channels = shape[0] * 4, shape[1] % 3 + 1, shape[2], shape[3]
    weights = np.random.default_rng(0).integers(
        -128, 128, (kernels, rows, columns, channels), np.int8
    )
    expected = [
        weights[k, r, s, c]
        for group in range(0, kernels, hardware.atomic_k)
        for block in range(0, channels, hardware.atomic_c)
        for r in range(rows)
        for s in range(columns)
        for k in range(group, min(group + hardware.atomic_k, kernels))
        for c in range(block, min(block + hardware.atomic_c, channels))
    ]
    packed = np.frombuffer(pack_weights(weights, hardware), np.int8)
    assert packed[: len(expected)].tolist() == expected
    assert packed.size % hardware.entry_bytes == 0
    assert not packed[len(expected) :].any()
    assert packed.size - len(expected) < hardware.entry_bytes
    content = packed.view(np.uint8)
    assert (unpack_weights(content, weights.shape, hardware) == weights).all()


@given(data=st.data())
def test_features_come_back_from_memory(data: st.DataObject) -> None:
    hardware = data.draw(st.sampled_from(OURS))
    shape = tuple(data.draw(st.integers(1, n)) for n in (6, 6, 80))
    draw: Any = data.draw
    place = surface(draw, hardware, shape[0], shape[1], 0x100)
    elements = drawn(draw, *shape)
    memories = Memories(hardware)
    memories.put(place, elements)
    three = (shape[0], shape[1], shape[2])
    assert (memories.get(place, three) == elements).all()
    found = unpack_features(memories.bytes[place.memory], place, three, hardware.memory_atom_bytes)
    assert (found == elements).all()


def test_one_group_is_the_least_that_a_layer_can_do_with() -> None:
    demand = Demand(SMALL, 4, 4, 8, 3, 1, 1, 1)
    assert demand.weight_banks(ResidentWeights.ONE_GROUP) == 1
