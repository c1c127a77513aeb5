"""model: a functional model of NVDLA, on bytes.

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

from penstock.uma import Array, rounding_shift
from penstock_nvdla.arithmetic import (
    Sums,
    converted,
    elements_by_tap,
    int8,
    pooled_by_pdp,
    processed,
    weighted_sum,
    whole_packs,
    with_unused_channels,
)
from penstock_nvdla.buffer import ConvolutionBuffer
from penstock_nvdla.configurations import NvdlaConfiguration
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
from penstock_nvdla.sequencer import FeaturePlace, Sequencer, check_early, check_ports
from penstock_nvdla.sizes import HardwareLayer, LayerTraffic
from penstock_nvdla.stream import MEANWHILE, completes, from_bytes, invalid_stream

Memories = Mapping[NvdlaMemory, Array]  # The contents of each memory as uint8, from address 0 on.

# For each unit that reads the input from memory, the units that must be started with it.
PIPELINES = {
    "CDMA": frozenset(UNITS),
    "SDP_RDMA": frozenset({"SDP_RDMA", "SDP"}),
    "PDP_RDMA": frozenset({"PDP_RDMA", "PDP"}),
}


@dataclass
class Device:
    """The state of the modelled hardware between two register writes.

    memories: the contents of each memory, from address 0 on.
    words: the word last written to each register, by register name.
    started: the units that have been started for the next layer.
    buffer: the contents of the convolution buffer.
    moved: for each layer so far, the bytes transferred, by field of `LayerTraffic`.
    sequencer: counts the cycles of layers; None if they are not counted.
    port_bytes: the bytes that the present layer has transferred, by memory.
    second_port: those of the second port, by field of `LayerTraffic`.
    read: the places from which it has read.
    before: the layer before in the stream, and the features that it wrote."""

    hardware: NvdlaConfiguration
    memories: Memories
    words: dict[str, int] = field(default_factory=dict[str, int])
    started: set[str] = field(default_factory=set[str])
    buffer: ConvolutionBuffer = field(default_factory=ConvolutionBuffer)
    moved: list[Counter[str]] = field(default_factory=list[Counter[str]])
    sequencer: Sequencer | None = None
    port_bytes: Counter[NvdlaMemory] = field(default_factory=Counter[NvdlaMemory])
    second_port: Counter[str] = field(default_factory=Counter[str])
    read: list[FeaturePlace] = field(default_factory=list[FeaturePlace])
    before: tuple[HardwareLayer, FeaturePlace] | None = None

    def memory(self, which: NvdlaMemory) -> Array:
        """Return a memory as a uint8 array.  Raises BackendError if there is no such memory."""
        if which not in self.memories:
            raise invalid_stream(f"there is no memory {which.name}", "a tensor lies in it")
        return self.memories[which]

    def run(self, source: str) -> None:
        """Execute the layer whose units have been started.

        source: the unit that was started last, such as "CDMA"; it reads the input.

        Raises BackendError if the units started do not form a layer."""
        missing = PIPELINES[source] - self.started
        optional = {"SDP_RDMA"} if source == "CDMA" else set[str]()
        stray = self.started - PIPELINES[source] - optional
        if missing or stray:
            named = ", ".join(sorted(missing or stray))
            raise invalid_stream(
                f"{source} is started {'before' if missing else 'beside'} {named}",
                "the units of one layer, and no others, are started in reverse order of the data "
                "flow",
            )
        self.moved.append(Counter())
        self.port_bytes.clear()
        self.second_port.clear()
        self.read.clear()
        layer, elements = self._computed(source)
        atom = self.hardware.memory_atom_bytes
        rows, columns, channels = elements.shape
        written = layer.output, (rows, columns, channels)
        check_ports(self.hardware, self.read, written)
        pointer = self.words.pop(MEANWHILE.register, None)
        if pointer not in (None, MEANWHILE.word):
            raise invalid_stream(
                f"{MEANWHILE.register} is {pointer}, must be {MEANWHILE.word}",
                "it selects the group of registers that the layer before does not use",
            )
        early = pointer is not None
        if early:
            check_early(self.hardware, self.before, layer, self.read)
        self.before = layer, written
        pack_features(self.memory(layer.output.memory), layer.output, elements, atom)
        self._count_features("output", layer.output.memory, elements)
        if self.sequencer is not None:
            moved, second_port = LayerTraffic(**self.moved[-1]), LayerTraffic(**self.second_port)
            self.sequencer.run(
                self.hardware, layer, self.port_bytes, moved, second_port, early=early
            )
        self.started.clear()

    def _computed(self, source: str) -> tuple[HardwareLayer, Array]:
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
        if unit.addends_in_memory:
            addends = found[0]  # the engine reads addends first
        return addends, found[-1] if unit.factors_in_memory else factors

    def _read_features(self, what: str, surface: Surface, shape: tuple[int, int, int]) -> Array:
        """Return int8 features from memory, of shape `shape` (rows, columns, channels), and count
        their bytes."""
        atom = self.hardware.memory_atom_bytes
        found = unpack_features(self.memory(surface.memory), surface, shape, atom)
        self._count_features(what, surface.memory, found)
        self.read.append((surface, shape))
        return found

    def _read_bytes(self, what: str, memory: NvdlaMemory, address: int, size_bytes: int) -> Array:
        """The `size_bytes` bytes from `address` on in a memory, and count them."""
        content = self.memory(memory)
        unpack_features(content, Surface(0, 0, address), (1, 1, 1), size_bytes)
        self._count(what, memory, size_bytes)
        columns = -(-size_bytes // self.hardware.memory_atom_bytes)
        self.read.append((Surface(0, 0, address, memory), (1, columns, 1)))
        return content[address : address + size_bytes]

    def _count_features(self, what: str, memory: NvdlaMemory, elements: Array) -> None:
        """Count the bytes of features as traffic of the layer; features are transferred in whole
        memory atoms."""
        rows, columns, channels = elements.shape
        atom = self.hardware.memory_atom_bytes
        size_bytes = rows * columns * len(range(0, channels, atom)) * atom
        self._count(what, memory, size_bytes)

    def _count(self, what: str, memory: NvdlaMemory, size_bytes: int) -> None:
        self.moved[-1][what] += size_bytes
        self.port_bytes[memory] += size_bytes
        if memory is NvdlaMemory.CVSRAM:
            self.second_port[what] += size_bytes

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
