"""model: a functional model of NVDLA's convolution core and of the extension, on bytes.

`execute` runs a stream of register writes on memories.  It decodes registers, reads features and
weights as the hardware has them in memory, and writes outputs; it knows nothing of who made the
stream.  Every byte that goes to or from a memory is counted.  Not modelled: time, and values in the
buffer beyond whole rows and whole weights.

Source: NVDLA hardware manual: unit description, programming guide, precision.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from penstock.accelerators.nvdla.configurations import Configuration
from penstock.accelerators.nvdla.extension import (
    TABLE_ROW_BYTES,
    Elementwise,
    Post,
    Range,
    Scale,
    WindowKind,
    WindowLayer,
    decode_post,
    decode_window,
)
from penstock.accelerators.nvdla.layer import Conversion, ConvolutionLayer, Memory, Surface
from penstock.accelerators.nvdla.packing import features_of, pack_features, weights_of
from penstock.accelerators.nvdla.registers import UNITS, decode
from penstock.accelerators.nvdla.stream import SOURCES, from_bytes
from penstock.accelerators.nvdla.traffic import Traffic
from penstock.uma import Array, BackendError, multiply, requantise, rounding_shift

Sums = NDArray[np.int64]
Memories = Mapping[Memory, Array]
"""Bytes of each memory, uint8; address 0 is the first."""

INT8 = Range()
TERM_BITS = 20
"""By which terms of element-wise sums are shifted left."""
PIPELINES = {"CDMA": frozenset(UNITS), "WINDOW": frozenset({"WINDOW", "SDP"})}
"""By the unit that brings data, all that a layer needs; POST may stand among them."""
EXTENSION = frozenset({"POST", "WINDOW"})


@dataclass
class Device:
    """The hardware between two writes: words of registers, units that were started, what is left
    in the convolution buffer: rows of features, in so many banks, and weights; and what each layer
    so far has moved."""

    hardware: Configuration
    memories: Memories
    words: dict[str, int] = field(default_factory=dict[str, int])
    started: set[str] = field(default_factory=set[str])
    rows: Array | None = None
    data_banks: int = 0
    weights: Array | None = None
    moved: list[Counter[str]] = field(default_factory=list[Counter[str]])

    def memory(self, which: Memory) -> Array:
        """A memory's bytes.  Raises BackendError where it is not there."""
        if which not in self.memories:
            raise _refused(f"there is no memory {which.name}", "a tensor lies in it")
        return self.memories[which]

    def run(self, source: str) -> None:
        """Runs the layer whose last unit is started."""
        missing = PIPELINES[source] - self.started
        stray = self.started - PIPELINES[source] - {"POST"}
        if missing or stray:
            named = ", ".join(sorted(missing or stray))
            raise _refused(
                f"{source} is started {'before' if missing else 'beside'} {named}",
                "units are started against the direction of data, and only those of one layer",
            )
        if self.hardware.extension is None and EXTENSION & self.started:
            raise _refused(
                f"NVDLA {self.hardware.name} has no unit {min(EXTENSION & self.started)}",
                "the configuration has no extension",
            )
        post = decode_post(self.words) if "POST" in self.started else None
        self.moved.append(Counter())
        if source == "CDMA":
            layer = decode(self.words, self.hardware)
            sums = self._delivered(layer)
            elements = self._post(post, sums) if post else self._converted(layer, sums)
        else:
            layer = decode_window(self.words)
            elements = self._windowed(layer, post)
        atom = self.hardware.memory_atom_bytes
        pack_features(self.memory(layer.output.memory), layer.output, elements, atom)
        self._count_features("output", elements)
        self.started.clear()

    def _fetched(self, what: str, surface: Surface, shape: tuple[int, int, int]) -> Array:
        """Features (rows, columns, channels), read from where they lie."""
        atom = self.hardware.memory_atom_bytes
        found = features_of(self.memory(surface.memory), surface, shape, atom)
        self._count_features(what, found)
        return found

    def _loaded(self, what: str, memory: Memory, address: int, size_bytes: int) -> Array:
        """Bytes, read from a memory.  Raises BackendError where they leave it."""
        content = self.memory(memory)
        features_of(content, Surface(0, 0, address), (1, 1, 1), size_bytes)
        self.moved[-1][what] += size_bytes
        return content[address : address + size_bytes]

    def _count_features(self, what: str, elements: Array) -> None:
        """Features come and go in whole atoms."""
        rows, columns, channels = elements.shape
        atom = self.hardware.memory_atom_bytes
        self.moved[-1][what] += rows * columns * len(range(0, channels, atom)) * atom

    def _converted(self, layer: ConvolutionLayer, sums: Sums) -> Array:
        """Elements of NVDLA's own conversion, in whole packs: channels that are not there are
        converted too."""
        beyond = -layer.kernels % self.hardware.memory_atom_bytes
        return converted(np.pad(sums, ((0, 0), (0, 0), (0, beyond))), layer.conversion)

    def _delivered(self, layer: ConvolutionLayer) -> Sums:
        """Sums as the core hands them on; keeps of data and weights what the layer leaves."""
        rows, weights = self._rows(layer), self._weights(layer)
        self.rows = rows if layer.reuse.keep_data else rows[layer.release :]
        self.data_banks = layer.data_banks
        self.weights = weights if layer.reuse.keep_weights else None
        pad = layer.padding
        padded = np.pad(
            rows,
            ((pad.top, pad.bottom), (pad.left, pad.right), (0, 0)),
            constant_values=_int8(layer.pad_value),
        )
        out = (layer.out_height, layer.out_width)
        totals = np.zeros((*out, layer.kernels))
        for k, l, taps in _taps(padded, layer):  # noqa: E741
            totals += taps @ weights[:, k, l].astype(np.float64).T  # exact: below 2**53
        # No layer has taps enough to leave the accumulators' bits.
        found = rounding_shift(totals.astype(np.int64), layer.accumulators.truncate)
        bits = self.hardware.delivered_bits - 1
        return np.clip(found, -(1 << bits), (1 << bits) - 1)

    def _rows(self, layer: ConvolutionLayer) -> Array:
        """The input: what is in the buffer, and what is fetched."""
        shape = (layer.height, layer.width, layer.channels)
        if layer.reuse.data or layer.kept_rows:
            kept = shape if layer.reuse.data else (layer.kept_rows, *shape[1:])
            if self.rows is None or self.rows.shape != kept:
                raise _refused(
                    f"a layer reuses data of {kept}, in the buffer are "
                    f"{self.rows.shape if self.rows is not None else 'none'}",
                    "they must be what the layer before left",
                )
            if self.data_banks != layer.data_banks:
                raise _refused(
                    f"a layer reuses data in {self.data_banks} banks, and has {layer.data_banks}",
                    "the buffer must be split as it was for the layer before",
                )
            if layer.reuse.data:
                return self.rows
        fetched = self._fetched("features", layer.source, (layer.fetched_rows, *shape[1:]))
        if layer.kept_rows and self.rows is not None:
            return np.concatenate((self.rows, fetched))
        return fetched

    def _weights(self, layer: ConvolutionLayer) -> Array:
        """Weights (kernels, rows, columns, channels): of the buffer, or fetched."""
        shape = (layer.kernels, layer.kernel_height, layer.kernel_width, layer.channels)
        if layer.reuse.weights:
            if self.weights is None or self.weights.shape != shape:
                raise _refused("a layer reuses weights that are not in the buffer",
                               "they must be what the layer before left")  # fmt: skip
            return self.weights
        content = self._loaded(
            "weights", layer.weight_memory, layer.weight_address, layer.weight_bytes
        )
        return weights_of(content, shape, self.hardware)

    def _windowed(self, layer: WindowLayer, post: Post | None) -> Array:
        """Elements that unit WINDOW makes, and unit POST, if it is there, of these."""
        shape = (layer.height, layer.width, layer.channels)
        image = self._fetched("features", layer.source, shape)
        if layer.kind is not WindowKind.DEPTHWISE:
            found = pooled(image, layer)
            return self._post(post, found) if post else found.astype(np.int8)
        if post is None or not post.requantise:
            raise _refused(
                "depthwise sums are not requantised", "only unit POST makes elements of them"
            )
        size = layer.window_height * layer.window_width * layer.kernels
        content = self._loaded("weights", Memory.MAIN, layer.weight_address, size)
        weights = content.view(np.int8).reshape(
            layer.window_height, layer.window_width, layer.kernels
        )
        return self._post(post, depthwise(image, weights, layer))

    def _post(self, post: Post, values: Sums) -> Array:
        """What unit POST makes of sums, or of elements."""
        if post.requantise:
            channels = values.shape[2]
            size = channels * TABLE_ROW_BYTES
            content = self._loaded("table", Memory.MAIN, post.table_address, size)
            table = np.frombuffer(content.tobytes(), "<i4").reshape(channels, 3).astype(np.int64)
            bias, multiplier, shift = table.T
            limits = (post.limits.least, post.limits.most)
            elements = requantise(values + bias, multiplier, shift, post.zero, limits)
        else:
            elements = np.clip(values, post.limits.least, post.limits.most).astype(np.int8)
        if post.elementwise is Elementwise.NONE:
            return elements
        rows, columns, channels = values.shape
        second = self._fetched("second", post.second, (rows, columns, channels))
        return combined(elements, second, post)


def execute(stream: bytes, memories: Memories, hardware: Configuration) -> tuple[Traffic, ...]:
    """Runs a stream on memories, which it changes; the bytes that each hardware layer has moved.

    Raises BackendError where the stream is malformed, or asks for what is not there;
    UnsupportedError and CapacityError where a layer is none that the hardware can run."""
    device = Device(hardware, memories)
    for write in from_bytes(stream):
        if write.starts is None:
            device.words[write.register] = write.word
            continue
        device.started.add(write.starts)
        if write.starts in SOURCES:
            device.run(write.starts)
    return tuple(Traffic(**moved) for moved in device.moved)


def converted(sums: Sums, conversion: Conversion) -> Array:
    """NVDLA's own way from sums to int8."""
    scaled = rounding_shift((sums - conversion.offset) * conversion.scale, conversion.shift)
    return np.clip(scaled, INT8.least, INT8.most).astype(np.int8)


def combined(first: Array, second: Array, post: Post) -> Array:
    """Element-wise sum, difference or product of two tensors, as TFLite has them."""
    left = first.astype(np.int64) - post.first.zero
    right = second.astype(np.int64) - post.other.zero
    if post.elementwise is Elementwise.MULTIPLY:
        values = left * right
    else:
        sign = 1 if post.elementwise is Elementwise.ADD else -1
        values = _term(left, post.first) + sign * _term(right, post.other)
    limits = (post.result_limits.least, post.result_limits.most)
    result = post.result
    return requantise(values, result.multiplier, result.shift, result.zero, limits)


def pooled(image: Array, layer: WindowLayer) -> Sums:
    """The largest element under each window, or the mean of those that are there, ties away from
    zero."""
    values = _bordered(image, layer, 0)
    there = _bordered(np.ones_like(image), layer, 0)
    out = (layer.out_height, layer.out_width, layer.channels)
    largest = np.full(out, INT8.least, np.int64)
    total, count = np.zeros(out, np.int64), np.zeros(out, np.int64)
    for (_, _, taps), (_, _, real) in zip(_taps(values, layer), _taps(there, layer), strict=True):
        inside = real.astype(bool)
        np.maximum(largest, taps.astype(np.int64), out=largest, where=inside)
        total += taps.astype(np.int64)
        count += inside
    if layer.kind is WindowKind.LARGEST:
        return largest
    half = count // 2
    return np.where(total > 0, (total + half) // count, -((half - total) // count))


def depthwise(image: Array, weights: Array, layer: WindowLayer) -> Sums:
    """Sums of each channel by itself; weights (rows, columns, output channels)."""
    values = np.repeat(_bordered(image, layer, layer.pad_value), layer.channel_multiplier, axis=2)
    totals = np.zeros((layer.out_height, layer.out_width, layer.kernels), np.int64)
    for k, l, taps in _taps(values, layer):  # noqa: E741
        totals += taps.astype(np.int64) * weights[k, l]
    return totals


def _taps(
    padded: Array, layer: ConvolutionLayer | WindowLayer
) -> Iterator[tuple[int, int, NDArray[np.float64]]]:
    """Row and column of every tap, and the elements (rows, columns, channels) that lie under it."""
    window = (
        (layer.kernel_height, layer.kernel_width)
        if isinstance(layer, ConvolutionLayer)
        else (layer.window_height, layer.window_width)
    )
    for k in range(window[0]):
        for l in range(window[1]):  # noqa: E741
            top, left = k * layer.dilation_y, l * layer.dilation_x
            yield (
                k,
                l,
                padded[
                    top : top + (layer.out_height - 1) * layer.stride_y + 1 : layer.stride_y,
                    left : left + (layer.out_width - 1) * layer.stride_x + 1 : layer.stride_x,
                ].astype(np.float64),
            )


def _bordered(image: Array, layer: WindowLayer, value: int) -> Array:
    """An image with its padding."""
    pad = layer.padding
    border = ((pad.top, pad.bottom), (pad.left, pad.right), (0, 0))
    return np.pad(image, border, constant_values=value)


def _term(values: Sums, scale: Scale) -> Sums:
    return multiply(values << TERM_BITS, scale.multiplier, scale.shift)


def _int8(value: int) -> int:
    """The low eight bits, as int8."""
    return (value + 128) % 256 - 128


def _refused(what: str, why: str) -> BackendError:
    return BackendError(
        "nvdla-012",
        what,
        where="a stream of register writes for NVDLA",
        why=why,
        help="mend the stream",
    )
