"""model: a functional model of NVDLA's convolution core and of the extension, on bytes.

`execute` runs a stream of register writes on memories.  It decodes registers, reads features and
weights in the hardware's memory layouts, and writes outputs; it shares no code with the encoder of
streams.  It counts every byte that is transferred to or from a memory.  It does not model time, and
it models the convolution buffer at the granularity of whole rows and whole weights only.

Source: NVDLA hardware manual: unit description, programming guide, precision.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from penstock.accelerators.nvdla.configurations import NvdlaConfiguration
from penstock.accelerators.nvdla.extension import (
    TABLE_ROW_BYTES,
    ElementwiseMode,
    Post,
    Range,
    Scale,
    WindowKind,
    WindowLayer,
    decode_post,
    decode_window,
)
from penstock.accelerators.nvdla.layer import Conversion, ConvolutionLayer, NvdlaMemory, Surface
from penstock.accelerators.nvdla.packing import features_of, pack_features, weights_of
from penstock.accelerators.nvdla.registers import UNITS, decode
from penstock.accelerators.nvdla.stream import SOURCES, from_bytes
from penstock.accelerators.nvdla.traffic import LayerTraffic
from penstock.uma import Array, BackendError, multiply, requantise, rounding_shift

Sums = NDArray[np.int64]
Memories = Mapping[NvdlaMemory, Array]
"""The bytes of each memory, uint8, from address 0 on."""

INT8 = Range()
TERM_BITS = 20
"""The left shift of the terms of an element-wise sum."""
PIPELINES = {"CDMA": frozenset(UNITS), "WINDOW": frozenset({"WINDOW", "SDP"})}
"""For each unit that fetches data, the units that a layer needs; POST is optional."""
EXTENSION = frozenset({"POST", "WINDOW"})


@dataclass
class Device:
    """The state of the hardware between two writes: register words, started units, the content of
    the convolution buffer (rows of features in a number of banks, and weights), and the traffic of
    each layer so far."""

    hardware: NvdlaConfiguration
    memories: Memories
    words: dict[str, int] = field(default_factory=dict[str, int])
    started: set[str] = field(default_factory=set[str])
    rows: Array | None = None
    data_banks: int = 0
    weights: Array | None = None
    moved: list[Counter[str]] = field(default_factory=list[Counter[str]])

    def memory(self, which: NvdlaMemory) -> Array:
        """The bytes of a memory.  Raises BackendError if there is no such memory."""
        if which not in self.memories:
            raise _refused(f"there is no memory {which.name}", "a tensor lies in it")
        return self.memories[which]

    def run(self, source: str) -> None:
        """Executes the layer after its last unit has been started."""
        missing = PIPELINES[source] - self.started
        stray = self.started - PIPELINES[source] - {"POST"}
        if missing or stray:
            named = ", ".join(sorted(missing or stray))
            raise _refused(
                f"{source} is started {'before' if missing else 'beside'} {named}",
                "the units of one layer, and no others, are started in reverse order of the data "
                "flow",
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
        """Reads features from memory; shape (rows, columns, channels)."""
        atom = self.hardware.memory_atom_bytes
        found = features_of(self.memory(surface.memory), surface, shape, atom)
        self._count_features(what, found)
        return found

    def _loaded(self, what: str, memory: NvdlaMemory, address: int, size_bytes: int) -> Array:
        """Reads bytes from a memory.  Raises BackendError if they exceed it."""
        content = self.memory(memory)
        features_of(content, Surface(0, 0, address), (1, 1, 1), size_bytes)
        self.moved[-1][what] += size_bytes
        return content[address : address + size_bytes]

    def _count_features(self, what: str, elements: Array) -> None:
        """Counts features, which are transferred in whole memory atoms."""
        rows, columns, channels = elements.shape
        atom = self.hardware.memory_atom_bytes
        self.moved[-1][what] += rows * columns * len(range(0, channels, atom)) * atom

    def _converted(self, layer: ConvolutionLayer, sums: Sums) -> Array:
        """Elements after NVDLA's own conversion, in whole packs; the padding channels of the last
        pack are converted, too."""
        beyond = -layer.kernels % self.hardware.memory_atom_bytes
        return converted(np.pad(sums, ((0, 0), (0, 0), (0, beyond))), layer.conversion)

    def _delivered(self, layer: ConvolutionLayer) -> Sums:
        """The sums that the core delivers.  Stores the data and weights that the layer keeps in the
        buffer."""
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
        # No layer has enough taps to overflow the accumulators.
        found = rounding_shift(totals.astype(np.int64), layer.accumulators.truncate)
        bits = self.hardware.delivered_bits - 1
        return np.clip(found, -(1 << bits), (1 << bits) - 1)

    def _rows(self, layer: ConvolutionLayer) -> Array:
        """The input: rows kept in the buffer, followed by rows read from memory."""
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
        """The weights, kept in the buffer or read from memory; shape (kernels, rows, columns,
        channels)."""
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
        """The results of unit WINDOW, processed by unit POST if it is started."""
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
        content = self._loaded("weights", NvdlaMemory.MAIN, layer.weight_address, size)
        weights = content.view(np.int8).reshape(
            layer.window_height, layer.window_width, layer.kernels
        )
        return self._post(post, depthwise(image, weights, layer))

    def _post(self, post: Post, values: Sums) -> Array:
        """The results of unit POST for sums or elements."""
        if post.requantise:
            channels = values.shape[2]
            size = channels * TABLE_ROW_BYTES
            content = self._loaded("table", NvdlaMemory.MAIN, post.table_address, size)
            table = np.frombuffer(content.tobytes(), "<i4").reshape(channels, 3).astype(np.int64)
            bias, multiplier, shift = table.T
            limits = (post.limits.least, post.limits.most)
            elements = requantise(values + bias, multiplier, shift, post.zero, limits)
        else:
            elements = np.clip(values, post.limits.least, post.limits.most).astype(np.int8)
        if post.elementwise is ElementwiseMode.NONE:
            return elements
        rows, columns, channels = values.shape
        second = self._fetched("second", post.second, (rows, columns, channels))
        return combined(elements, second, post)


def execute(
    stream: bytes, memories: Memories, hardware: NvdlaConfiguration
) -> tuple[LayerTraffic, ...]:
    """Executes a stream on memories, in place, and returns the traffic of each hardware layer.

    Raises BackendError if the stream is malformed or accesses a missing memory, and
    UnsupportedError or CapacityError if the hardware cannot execute a layer."""
    device = Device(hardware, memories)
    for write in from_bytes(stream):
        if write.starts is None:
            device.words[write.register] = write.word
            continue
        device.started.add(write.starts)
        if write.starts in SOURCES:
            device.run(write.starts)
    return tuple(LayerTraffic(**moved) for moved in device.moved)


def converted(sums: Sums, conversion: Conversion) -> Array:
    """NVDLA's own conversion of sums to int8."""
    scaled = rounding_shift((sums - conversion.offset) * conversion.scale, conversion.shift)
    return np.clip(scaled, INT8.least, INT8.most).astype(np.int8)


def combined(first: Array, second: Array, post: Post) -> Array:
    """The element-wise sum, difference or product of two tensors, in TFLite's arithmetic."""
    left = first.astype(np.int64) - post.first.zero
    right = second.astype(np.int64) - post.other.zero
    if post.elementwise is ElementwiseMode.MULTIPLY:
        values = left * right
    else:
        sign = 1 if post.elementwise is ElementwiseMode.ADD else -1
        values = _term(left, post.first) + sign * _term(right, post.other)
    limits = (post.result_limits.least, post.result_limits.most)
    result = post.result
    return requantise(values, result.multiplier, result.shift, result.zero, limits)


def pooled(image: Array, layer: WindowLayer) -> Sums:
    """The maximum of each window, or the mean without padding, with ties rounded away from zero."""
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
    """The sums of a depthwise convolution; weights have shape (rows, columns, output channels)."""
    values = np.repeat(_bordered(image, layer, layer.pad_value), layer.channel_multiplier, axis=2)
    totals = np.zeros((layer.out_height, layer.out_width, layer.kernels), np.int64)
    for k, l, taps in _taps(values, layer):  # noqa: E741
        totals += taps.astype(np.int64) * weights[k, l]
    return totals


def _taps(
    padded: Array, layer: ConvolutionLayer | WindowLayer
) -> Iterator[tuple[int, int, NDArray[np.float64]]]:
    """For each tap, its row and column, and the elements under it, of shape (rows, columns,
    channels)."""
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
    """A term of an element-wise sum, scaled."""
    return multiply(values << TERM_BITS, scale.multiplier, scale.shift)


def _int8(value: int) -> int:
    """The low eight bits, as int8."""
    return (value + 128) % 256 - 128


def _refused(what: str, why: str) -> BackendError:
    """The error for a stream that the hardware cannot execute."""
    return BackendError(
        "nvdla-012",
        what,
        where="a stream of register writes for NVDLA",
        why=why,
        help="correct the stream",
    )
