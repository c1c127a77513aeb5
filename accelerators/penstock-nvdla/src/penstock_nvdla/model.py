"""model: a functional model of NVDLA's convolution core and of penstock's extension, on bytes.

`execute` runs a stream of register writes on memories.  It decodes registers, reads features and
weights in the hardware's memory layouts, and writes outputs; it shares no code with the encoder of
streams.  It counts every byte that is transferred to or from a memory, and the cycles of layers
(`sequencer.py`).

Source: NVDLA hardware manual: unit description, programming guide, precision; nvdla/hw, branch
nv_small, vmod.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.uma import Array, requantise, rounding_shift
from penstock_nvdla.arithmetic import (
    Sums,
    combined,
    converted,
    depthwise,
    elements_by_tap,
    int8,
    pooled,
    pooled_by_pdp,
    processed,
    weighted_sum,
    whole_packs,
    with_unused_channels,
)
from penstock_nvdla.buffer import ConvolutionBuffer
from penstock_nvdla.configurations import NvdlaConfiguration
from penstock_nvdla.extension import (
    POST,
    TABLE_ROW_BYTES,
    WINDOW,
    ElementwiseMode,
    HardwareLayer,
    Post,
    WindowKind,
    WindowLayer,
)
from penstock_nvdla.layer import ConvolutionLayer, NvdlaMemory, Surface
from penstock_nvdla.packing import pack_features, unpack_features
from penstock_nvdla.pdp import POOLING
from penstock_nvdla.registers import UNIT_MODES, UNITS, decode
from penstock_nvdla.sdp import (
    CUBE,
    SdpCube,
    SdpUnit,
    SdpUnitY,
    Use,
    decode_operations,
    decode_sdp,
    decode_y,
    per_channel,
)
from penstock_nvdla.sequencer import FeaturePlace, Sequencer, check_ports
from penstock_nvdla.stream import completes, from_bytes, invalid_stream
from penstock_nvdla.task import LayerTraffic

Memories = Mapping[NvdlaMemory, Array]  # The contents of each memory as uint8, from address 0 on.

# For each unit that reads the input from memory, the units that must be started with it.
PIPELINES = {
    "CDMA": frozenset(UNITS),
    "WINDOW": frozenset({"WINDOW", "SDP"}),
    "SDP_RDMA": frozenset({"SDP_RDMA", "SDP"}),
    "PDP_RDMA": frozenset({"PDP_RDMA", "PDP"}),
}
# For each of them, the units that may be started in addition.
OPTIONAL = {"CDMA": frozenset({"POST", "SDP_RDMA"}), "WINDOW": frozenset({"POST"})}
EXTENSION = frozenset({"POST", "WINDOW"})  # The units of the extension.


@dataclass
class Device:
    """The state of the modelled hardware between two register writes.

    memories: the contents of each memory, from address 0 on.
    words: the word last written to each register, by register name.
    other_words: the same for a second group of registers.  The sequencer of the extension exchanges
        both groups after each layer; without a sequencer, only one group is used.
    started: the units that have been started for the next layer.
    buffer: the contents of the convolution buffer.
    moved: for each layer so far, the bytes transferred, by field of `LayerTraffic`.
    sequencer: counts the cycles of layers; None if they are not counted.
    port_bytes: the bytes that the present layer has transferred, by memory.
    sources: the memories from which the present layer has read features.
    read: the places in the feature buffer from which it has read features."""

    hardware: NvdlaConfiguration
    memories: Memories
    words: dict[str, int] = field(default_factory=dict[str, int])
    other_words: dict[str, int] = field(default_factory=dict[str, int])
    started: set[str] = field(default_factory=set[str])
    buffer: ConvolutionBuffer = field(default_factory=ConvolutionBuffer)
    moved: list[Counter[str]] = field(default_factory=list[Counter[str]])
    sequencer: Sequencer | None = None
    port_bytes: Counter[NvdlaMemory] = field(default_factory=Counter[NvdlaMemory])
    sources: set[NvdlaMemory] = field(default_factory=set[NvdlaMemory])
    read: list[FeaturePlace] = field(default_factory=list[FeaturePlace])

    def memory(self, which: NvdlaMemory) -> Array:
        """Return a memory as a uint8 array.  Raises BackendError if there is no such memory."""
        if which not in self.memories:
            raise invalid_stream(f"there is no memory {which.name}", "a tensor lies in it")
        return self.memories[which]

    def run(self, source: str) -> None:
        """Execute the layer whose units have been started.

        source: the unit that was started last, "CDMA" or "WINDOW"; it reads the input.

        Raises BackendError if the units started do not form a layer."""
        missing = PIPELINES[source] - self.started
        stray = self.started - PIPELINES[source] - OPTIONAL.get(source, frozenset())
        if missing or stray:
            named = ", ".join(sorted(missing or stray))
            raise invalid_stream(
                f"{source} is started {'before' if missing else 'beside'} {named}",
                "the units of one layer, and no others, are started in reverse order of the data "
                "flow",
            )
        if self.hardware.extension is None and EXTENSION & self.started:
            raise invalid_stream(
                f"NVDLA {self.hardware.name} has no unit {min(EXTENSION & self.started)}",
                "the configuration has no extension",
            )
        post = POST.decode(self.words) if "POST" in self.started else None
        self.moved.append(Counter())
        self.port_bytes.clear()
        self.sources.clear()
        self.read.clear()
        layer, elements = self._computed(source, post)
        atom = self.hardware.memory_atom_bytes
        rows, columns, channels = elements.shape
        check_ports(self.hardware, self.read, (layer.output, (rows, columns, channels)))
        sram_bytes = self.port_bytes[NvdlaMemory.FEATURE_BUFFER]
        pack_features(self.memory(layer.output.memory), layer.output, elements, atom)
        self._count_features("output", layer.output.memory, elements)
        if self.sequencer is not None:
            combines = post is not None and post.elementwise is not ElementwiseMode.NONE
            moved = LayerTraffic(**self.moved[-1])
            self.sequencer.run(
                self.hardware,
                layer,
                self.port_bytes,
                self.sources,
                moved,
                sram_bytes=sram_bytes,
                combines=combines,
            )
            self.words, self.other_words = self.other_words, self.words
        self.started.clear()

    def _computed(self, source: str, post: Post | None) -> tuple[HardwareLayer, Array]:
        if source == "WINDOW":
            window = WINDOW.decode(self.words)
            return window, self._window_results(window, post)
        if source == "PDP_RDMA":
            pooling = POOLING.decode(self.words)
            shape = (pooling.height, pooling.width, whole_packs(pooling.channels, self.hardware))
            image = self._read_features("features", pooling.source, shape)
            return pooling, pooled_by_pdp(image, pooling).astype(np.int8)
        if source == "SDP_RDMA":
            single = decode_sdp(self.words)
            shape = (single.height, single.width, whole_packs(single.channels, self.hardware))
            values = self._read_features("features", single.source, shape).astype(np.int64)
            return single, converted(self._operated(values), single.conversion)
        if "SDP_RDMA" in self.started:
            bypassed = {name: word for name, word in self.words.items() if name not in UNIT_MODES}
            layer = decode(bypassed, self.hardware)
            layer = replace(layer, through_y=decode_y(self.words) is not None)
            cube = CUBE.decode(self.words)
            expected = SdpCube(layer.out_width, layer.out_height, layer.kernels)
            if cube != expected:
                raise invalid_stream(f"SDP_RDMA is set to {cube}", f"the layer has {expected}")
            sums = with_unused_channels(self._delivered(layer), self.hardware)
            return layer, converted(self._operated(sums), layer.conversion)
        layer = decode(self.words, self.hardware)
        sums = self._delivered(layer)
        if post is not None:
            return layer, self._post_processed(post, sums)
        return layer, converted(with_unused_channels(sums, self.hardware), layer.conversion)

    def _operated(self, values: Sums) -> Sums:
        """Apply SDP's units X1, X2 and Y to `values`, of shape (rows, columns, channels)."""
        operations = decode_operations(self.words)
        for unit in (operations.x1, operations.x2):
            addends, factors = self._operands(unit, values.shape)
            values = processed(values, unit, addends, factors)
        if operations.y is None:
            return values
        if not self.hardware.rates.elementwise:
            raise invalid_stream(f"NVDLA {self.hardware.name} has no unit Y", "it is not bypassed")
        return weighted_sum(values, operations.y, *self._operands_of_y(operations.y, values.shape))

    def _operands_of_y(self, unit: SdpUnitY, shape: tuple[int, int, int]) -> tuple[Sums, Sums]:
        if unit.by_channel:
            by_channel = per_channel(0, 0, unit.address, one_sided=False)
            return self._operands(replace(by_channel, memory=unit.memory), shape)
        second = self._read_features("second", unit.second, shape)
        return second.astype(np.int64), np.full((1, 1, 1), unit.factor, np.int64)

    def _operands(self, unit: SdpUnit, shape: tuple[int, int, int]) -> tuple[Sums, Sums]:
        addends = np.full((1, 1, 1), unit.addend, np.int64)
        factors = np.full((1, 1, 1), unit.factor, np.int64)
        if unit.bypass or unit.unread:
            return addends, factors
        if unit.per_element:
            if unit.use is Use.BOTH or unit.two_bytes:
                raise invalid_stream("SDP reads several bytes per element", "the model reads one")
            surface = Surface(unit.line_stride, unit.surface_stride, unit.address, unit.memory)
            found = [self._read_features("second", surface, shape).astype(np.int64)]
        else:
            count = 1 + (unit.use is Use.BOTH)
            size = shape[2] * count * (1 + unit.two_bytes)
            content = self._read_bytes("table", unit.memory, unit.address, size)
            numbers = np.frombuffer(content.tobytes(), "<i2" if unit.two_bytes else "<i1")
            each = numbers.astype(np.int64).reshape(shape[2], count).T
            found = [one.reshape(1, 1, -1) for one in each]
        if unit.use is Use.BOTH:
            return found[0], found[1]
        return (found[0], factors) if unit.use is Use.ADDENDS else (addends, found[0])

    def _read_features(self, what: str, surface: Surface, shape: tuple[int, int, int]) -> Array:
        """Return int8 features from memory, of shape `shape` (rows, columns, channels), and count
        their bytes."""
        atom = self.hardware.memory_atom_bytes
        found = unpack_features(self.memory(surface.memory), surface, shape, atom)
        self._count_features(what, surface.memory, found)
        self.sources.add(surface.memory)
        self.read.append((surface, shape))
        return found

    def _read_bytes(self, what: str, memory: NvdlaMemory, address: int, size_bytes: int) -> Array:
        """The `size_bytes` bytes from `address` on in a memory, and count them."""
        content = self.memory(memory)
        unpack_features(content, Surface(0, 0, address), (1, 1, 1), size_bytes)
        self.moved[-1][what] += size_bytes
        self.port_bytes[memory] += size_bytes
        return content[address : address + size_bytes]

    def _count_features(self, what: str, memory: NvdlaMemory, elements: Array) -> None:
        """Count the bytes of features as traffic of the layer; features are transferred in whole
        memory atoms."""
        rows, columns, channels = elements.shape
        atom = self.hardware.memory_atom_bytes
        size_bytes = rows * columns * len(range(0, channels, atom)) * atom
        self.moved[-1][what] += size_bytes
        self.port_bytes[memory] += size_bytes

    def _delivered(self, layer: ConvolutionLayer) -> Sums:
        """The accumulators of a layer as the core delivers them, rounded and saturated to 32
        bits, in an array of shape (output rows, output columns, output channels)."""
        fetched = (layer.fetched_rows, layer.width, layer.channels)
        place = (layer.weight_memory, layer.weight_address, layer.weight_bytes)
        rows, weights = self.buffer.load(
            layer,
            lambda: self._read_features("features", layer.source, fetched),
            lambda: self._read_bytes("weights", *place),
        )
        pad = layer.padding
        padded = np.pad(
            rows,
            ((pad.top, pad.bottom), (pad.left, pad.right), (0, 0)),
            constant_values=int8(layer.pad_value),
        )
        out = (layer.out_height, layer.out_width)
        totals = np.zeros((*out, layer.kernels))
        for k, l, taps in elements_by_tap(padded, layer):  # noqa: E741
            totals += taps @ weights[:, k, l].astype(np.float64).T  # exact: below 2**53
        # No layer has enough taps to overflow the accumulators.
        found = rounding_shift(totals.astype(np.int64), layer.accumulators.truncate)
        bits = self.hardware.delivered_bits - 1
        return np.clip(found, -(1 << bits), (1 << bits) - 1)

    def _window_results(self, layer: WindowLayer, post: Post | None) -> Array:
        """The int8 results of a layer of pooling or depthwise convolution."""
        shape = (layer.height, layer.width, layer.channels)
        image = self._read_features("features", layer.source, shape)
        if layer.kind is not WindowKind.DEPTHWISE:
            found = pooled(image, layer)
            return self._post_processed(post, found) if post else found.astype(np.int8)
        if post is None or not post.requantise:
            raise invalid_stream(
                "depthwise sums are not requantised", "only unit POST makes elements of them"
            )
        size = layer.window_height * layer.window_width * layer.kernels
        content = self._read_bytes("weights", NvdlaMemory.MAIN, layer.weight_address, size)
        shape = layer.window_height, layer.window_width, layer.kernels
        weights = content.view(np.int8).reshape(shape)
        return self._post_processed(post, depthwise(image, weights, layer))

    def _post_processed(self, post: Post, values: Sums) -> Array:
        """The int8 elements that post-processing computes from the results of a layer."""
        # Accumulators are first requantised to elements.  Elements are then clamped to
        # `post.limits`, and combined with a second tensor if `post.elementwise` selects an
        # operation.
        channels = values.shape[2]
        if post.requantise:
            at, size = post.table_address, channels * TABLE_ROW_BYTES
            content = self._read_bytes("table", NvdlaMemory.MAIN, at, size)
            table = np.frombuffer(content.tobytes(), "<i4").reshape(channels, 3).astype(np.int64)
            bias, multiplier, shift = table.T
            limits = (post.limits.least, post.limits.most)
            elements = requantise(values + bias, multiplier, shift, post.zero, limits)
        else:
            elements = np.clip(values, post.limits.least, post.limits.most).astype(np.int8)
        if post.elementwise is ElementwiseMode.NONE:
            return elements
        if post.by_channel:
            single = self._read_bytes("table", NvdlaMemory.MAIN, post.second.address, channels)
            return combined(elements, single.view(np.int8), post)
        return combined(elements, self._read_features("second", post.second, values.shape), post)


def execute(
    stream: bytes,
    memories: Memories,
    hardware: NvdlaConfiguration,
    sequencer: Sequencer | None = None,
) -> tuple[LayerTraffic, ...]:
    """Execute a stream of register writes and return the traffic of each hardware layer.

    memories: the contents of each memory, from address 0 on; modified in place.
    sequencer: counts the cycles of the layers; None if they are not counted.

    Raises BackendError if the stream is malformed or accesses a missing memory, and
    UnsupportedError or CapacityError if the hardware cannot execute a layer."""
    device = Device(hardware, memories, sequencer=sequencer)
    if sequencer is not None:
        device.buffer = sequencer.buffer
    for write in from_bytes(stream):
        if write.starts is None:
            device.words[write.register] = write.word
            continue
        device.started.add(write.starts)
        if completes(write, device.words):
            device.run(write.starts)
    return tuple(LayerTraffic(**moved) for moved in device.moved)
