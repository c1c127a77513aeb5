"""task: what NVDLA does for an operator, and the hardware layers of this task.

A convolution takes one or two passes over its input (`sdp_constants`).  The elements of the second
pass are written to scratch; then a layer of SDP alone adds them to the output.  A depthwise
convolution runs as one convolution for each pack of channels; kernels are zero off the diagonal.

An image with fewer channels than a pack becomes one of whole packs by 1x1 convolutions, too: they
read its bytes as packs.  Pixels at the same place in a block of packs are the lines of a layer.

A concatenation has a task for each input.  Where channels of an input do not begin and end with a
pack, a 1x1 convolution whose weights are 0 and 1 moves them within their packs.  It writes zeros to
the other channels.  Where a pack begins with channels of earlier inputs, SDP adds these to the sums
of the convolution.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from enum import Enum
from itertools import groupby

from penstock_nvdla.cut import Convolution, hardware_layers, layers_of_passes
from penstock_nvdla.layer import (
    UNCHANGED,
    WEIGHT_ALIGNMENT_BYTES,
    Conversion,
    ConvolutionLayer,
    Padding,
    Reuse,
    Surface,
)
from penstock_nvdla.overlap import divided, divided_cycles, overlapping
from penstock_nvdla.pairs import RowPairs
from penstock_nvdla.pdp import (
    PoolingLayer,
    PoolingMethod,
    reciprocals,
    spans,
    widest_output,
)
from penstock_nvdla.sdp import (
    OPERAND_BYTES,
    SdpLayer,
    SdpOperations,
    SdpUnitY,
    added_elements,
    per_channel,
    scaled,
)
from penstock_nvdla.sdp_constants import HIGHEST, LOWEST, PassSettings
from penstock_nvdla.sdp_sums import SumSettings, UnitYSum
from penstock_nvdla.sizes import (
    LayerTraffic,
    TaskSizes,
    packed_bytes,
    traffic_of_convolution,
)
from penstock_nvdla.stream import (
    MEANWHILE,
    Write,
    convolution_writes,
    operating_writes,
    pooling_writes,
    sdp_writes,
)

# The size in bytes of the rows that are in scratch at a time, unless a single row is larger, or
# main memory delivers more during twice its latency.
ROWS_BYTES = 4096


DATA_PASSES = SdpOperations()  # The units of SDP compute nothing.


class Base(Enum):
    """What the address in a register is relative to: the first row of a tensor that is accessed, a
    table, or scratch."""

    INPUT = "input"
    SECOND = "second"
    OUTPUT = "output"
    WEIGHTS = "weights"
    OPERANDS = "operands"
    SCRATCH = "scratch"


@dataclass(frozen=True, slots=True)
class Step:
    """A hardware layer of a task.

    operations: what units X1, X2 and Y of SDP do; not used if PDP executes the layer.
    bases: for each register that holds an address, what this address is relative to.
    early: whether it may start while the convolution before it runs."""

    layer: ConvolutionLayer | SdpLayer | PoolingLayer
    traffic: LayerTraffic
    bases: Mapping[str, Base]
    operations: SdpOperations = DATA_PASSES
    early: bool = False

    def moved(self, source: int, output: int) -> Step:
        """The layer of a convolution with other places of input and output, in bytes further."""
        assert isinstance(self.layer, ConvolutionLayer)
        places = {
            name: replace(surface, address=surface.address + offset)
            for name, surface, offset in (
                ("source", self.layer.source, source),
                ("output", self.layer.output, output),
            )
        }
        return replace(self, layer=replace(self.layer, **places))

    @property
    def writes(self) -> tuple[Write, ...]:
        """The register writes of the layer.

        Raises UnsupportedError if a parameter does not fit the register field that holds it."""
        if isinstance(self.layer, PoolingLayer):
            return pooling_writes(self.layer)
        if isinstance(self.layer, SdpLayer):
            return sdp_writes(self.layer, self.operations)
        begin = (MEANWHILE,) if self.early else ()
        if self.operations is DATA_PASSES:
            return begin + convolution_writes(self.layer)
        return begin + operating_writes(self.layer, self.operations)

    def traffic_inside(self, places: Set[Base]) -> LayerTraffic:
        """Return the bytes of tensors that the layer reads and writes at some places."""
        moved = self.traffic
        second = [one for register, one in self.bases.items() if register in SECOND_REGISTERS]
        second = [one for one in second if one is not Base.OPERANDS]
        read = any(self.bases.get(name) in places for name in SOURCE_REGISTERS)
        written = any(self.bases.get(name) in places for name in OUTPUT_REGISTERS)
        return LayerTraffic(
            features=moved.features * read,
            second=sum(moved.second // len(second) for one in second if one in places),
            output=moved.output * written,
        )


SOURCE_REGISTERS = (
    "CDMA.D_DAIN_ADDR_LOW_0",
    "SDP_RDMA.D_SRC_BASE_ADDR_LOW",
    "PDP_RDMA.D_SRC_BASE_ADDR_LOW",
)
SECOND_REGISTERS = (
    "SDP_RDMA.D_BS_BASE_ADDR_LOW",
    "SDP_RDMA.D_BN_BASE_ADDR_LOW",
    "SDP_RDMA.D_EW_BASE_ADDR_LOW",
)
OUTPUT_REGISTERS = ("SDP.D_DST_BASE_ADDR_LOW", "PDP.D_DST_BASE_ADDR_LOW")
TABLE_BASES = {
    "SDP_RDMA.D_BS_BASE_ADDR_LOW": Base.OPERANDS,
    "SDP_RDMA.D_BN_BASE_ADDR_LOW": Base.OPERANDS,
}
CONVOLUTION_BASES = {
    "CDMA.D_DAIN_ADDR_LOW_0": Base.INPUT,
    "CDMA.D_WEIGHT_ADDR_LOW": Base.WEIGHTS,
    **TABLE_BASES,
}
OUTPUT_REGISTER = "SDP.D_DST_BASE_ADDR_LOW"
MOVING_BASES = {
    "CDMA.D_DAIN_ADDR_LOW_0": Base.INPUT,
    "CDMA.D_WEIGHT_ADDR_LOW": Base.WEIGHTS,
    OUTPUT_REGISTER: Base.OUTPUT,
}
ADDING_BASES = {**MOVING_BASES, "SDP_RDMA.D_BS_BASE_ADDR_LOW": Base.OUTPUT}
SUM_BASES = {
    "SDP_RDMA.D_SRC_BASE_ADDR_LOW": Base.SCRATCH,
    "SDP_RDMA.D_BS_BASE_ADDR_LOW": Base.OUTPUT,
    OUTPUT_REGISTER: Base.OUTPUT,
}
COPY_BASES = {"SDP_RDMA.D_SRC_BASE_ADDR_LOW": Base.INPUT, OUTPUT_REGISTER: Base.OUTPUT}
POOLING_BASES = {
    "PDP_RDMA.D_SRC_BASE_ADDR_LOW": Base.INPUT,
    "PDP.D_SRC_BASE_ADDR_LOW": Base.INPUT,
    "PDP.D_DST_BASE_ADDR_LOW": Base.OUTPUT,
}


@dataclass(frozen=True, slots=True)
class Task(TaskSizes):
    """What NVDLA does to compute the whole output of an operator.

    passes: the settings of a convolution's passes; empty for other operators.
    by_pack: whether there is one convolution per pack of channels, as in depthwise convolutions.
    alike: whether the convolutions of all whole packs read the same weights.
    method: what PDP computes; None unless the operator is a pool.
    total: the constants of the one or two passes of a sum of two tensors; empty for other
        operators.
    split: the result at which two such passes meet: elements of the first saturate below it, those
        of the second above it.
    function: the settings of the passes of a function of one element; empty for other operators.
    shared: for each of these passes, the four operands of all channels; empty if each channel has
        operands of its own, in a table.
    gathered_bytes: the bytes at the start of scratch for copies of a window's input rows, or 0.
    lead: for an input of a concatenation, the number of channels of earlier inputs in the first
        pack that the task writes; `out_c` includes them.
    moves: whether a convolution moves this input's channels within their packs.
    weight_address: the place of the weights of this convolution in the table of weights.
    spreads: if not 0, the number of channels of an image whose pixels become packs.  `in_w` counts
        the packs of a row as it is stored, and `in_c` their channels.
    pairs: how a convolution by packs reads pairs of rows where all rows are computed at once; None
        if it does not.  Its weights and operands follow those of single rows."""

    passes: tuple[PassSettings, ...] = ()
    by_pack: bool = False
    alike: bool = False
    method: PoolingMethod | None = None
    total: tuple[SumSettings | UnitYSum, ...] = ()
    split: int = 0
    function: tuple[PassSettings, ...] = ()
    shared: tuple[tuple[int, ...], ...] = ()
    gathered_bytes: int = 0
    lead: int = 0
    moves: bool = False
    weight_address: int = 0
    spreads: int = 0
    pairs: RowPairs | None = None

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the constant arrays that the task reads: weights and operands of SDP."""
        if self.moves or self.spreads:
            return ("weights",)
        if self.function and not self.shared:
            return ("post",)
        return ("weights", "post") if self.passes else ()

    @property
    def in_row_bytes(self) -> int:
        """The size in bytes of an input row as it is stored."""
        return self.out_w * self.spreads or self.row_bytes(self.in_w, self.in_c)

    @property
    def operands(self) -> tuple[int, ...]:
        """The indices of the operator's inputs that the task reads, in order."""
        return (self.total[0].main, 1 - self.total[0].main) if self.total else (0,)

    @property
    def rows_at_once(self) -> int:
        """How many output rows are computed before what is in scratch is added to them."""
        port = self.hardware.memory
        most = max(ROWS_BYTES, round(2 * port.latency_cycles * port.bytes_per_cycle))
        return max(1, most // self.out_row_bytes)

    @property
    def scratch_bytes(self) -> int:
        """The size of the scratch memory of the task in bytes."""
        rows = min(self.rows_at_once, self.out_h) if self.has_passes else 0
        return self.gathered_bytes + rows * self.out_row_bytes

    @property
    def adds(self) -> bool:
        """Whether layers add to the output."""
        return self.lead > 0 or self.has_passes

    @property
    def has_passes(self) -> bool:
        """Whether there are two passes, of which the results of the second are in scratch."""
        return len(self.passes or self.function or self.total) > 1

    @property
    def padded_channels(self) -> int:
        """The number of output channels, in whole packs."""
        atom = self.hardware.memory_atom_bytes
        return -(-self.out_c // atom) * atom

    @property
    def unit_bytes(self) -> int:
        """The size in bytes of the operands of one unit of SDP (X1 or X2) for all channels."""
        return self.padded_channels * OPERAND_BYTES

    def even_steps(self, first: int, end: int) -> Iterator[Step]:
        """Yield the hardware layers for output rows [first, end) of contiguous tensors."""
        return self.steps(first, end, self.in_row_bytes, self.out_row_bytes, self.out_row_bytes)

    def steps(
        self, first: int, end: int, in_lines: int, out_lines: int, second_lines: int
    ) -> Iterator[Step]:
        """Yield the hardware layers that compute output rows [first, end), in order.

        in_lines, out_lines, second_lines: the distances in bytes between consecutive rows of the
            input, of the output, and of the second input of a sum.

        Raises UnsupportedError or CapacityError if the hardware cannot execute the task."""
        # Row addresses are relative to the first input row that is read, to output row `first`, or
        # to row `first` of the second input (`Step.bases`).
        every = self._ordered_steps(first, end, in_lines, out_lines, second_lines)
        for convolves, some in groupby(every, lambda s: isinstance(s.layer, ConvolutionLayer)):
            run = tuple(some)
            # A convolution reads no tensor that another one of the task writes.
            layers = [step.layer for step in run if isinstance(step.layer, ConvolutionLayer)]
            found = overlapping(layers) if convolves else ()
            if not found:
                yield from run
            for k, layer in enumerate(found):
                yield replace(run[k], layer=layer, early=k > 0)

    def _ordered_steps(
        self, first: int, end: int, in_lines: int, out_lines: int, second_lines: int
    ) -> Iterator[Step]:
        """The hardware layers of `steps`, each of which starts when the one before is complete."""
        if self.total:
            yield from self._total_steps(end - first, (in_lines, second_lines), out_lines)
        elif self.method is PoolingMethod.AVERAGE:
            yield from self._averaging_steps(first, end, in_lines, out_lines)
        elif self.method is not None:
            yield from self._pooling_steps(self.method, first, end, in_lines, out_lines)
        elif self.spreads:
            yield from self._spreading_steps(end - first, in_lines, out_lines)
        elif self.moves:
            surfaces = self._surfaces(0, 0, in_lines, out_lines)
            yield from self._moving_steps(end - first, *surfaces)
        elif not self.passes:
            yield from self._function_steps(end - first, in_lines, out_lines)
        elif len(self.passes) == 1:
            surfaces = self._surfaces(0, 0, in_lines, out_lines)
            yield from self._pass_steps(first, end, (surfaces,))
        else:
            start, _ = self.reads(first, end)
            for lower in range(first, end, self.rows_at_once):
                upper = min(end, lower + self.rows_at_once)
                source = (self.reads(lower, upper)[0] - start) * in_lines
                target = (lower - first) * out_lines
                surfaces = self._surfaces(source, target, in_lines, out_lines)
                kept = self._kept(self.gathered_bytes)
                yield from self._pass_steps(lower, upper, (surfaces, (surfaces[0], kept)))
                yield self._sum(self.passes[0].origin, upper - lower, kept, surfaces[1])

    def _kept(self, address: int = 0) -> Surface:
        """The rows of the output that are in scratch."""
        return Surface(self.out_row_bytes, self.out_w * self.hardware.memory_atom_bytes, address)

    def _surfaces(
        self, source: int, target: int, in_lines: int, out_lines: int
    ) -> tuple[Surface, Surface]:
        atom = self.hardware.memory_atom_bytes
        return (
            Surface(in_lines, (self.in_span or self.in_w) * atom, source),
            Surface(out_lines, (self.out_span or self.out_w) * atom, target),
        )

    def _pass_steps(
        self, first: int, end: int, surfaces: Sequence[tuple[Surface, Surface]]
    ) -> Iterator[Step]:
        """The hardware layers of all passes over the input, for output rows [first, end).

        surfaces: the input and the output of each pass; the output of the second is in scratch."""
        if self.pairs and (first, end) == (0, self.out_h) and self.pairs == RowPairs.of(self):
            first, (source, output) = self.pairs.rows, surfaces[0]
            yield from self._paired_steps(self.pairs, source, output)
            if first == end:
                return
            source, output = (
                replace(surface, address=surface.address + row * surface.line_stride)
                for surface, row in ((source, self.reads(first, end)[0]), (output, first))
            )
            surfaces = ((source, output),)
        weight_address = 0
        for pack in self.packs():
            convolutions = [
                replace(
                    self._pass_convolution(settings, first, end, each, pack),
                    weight_address=weight_address,
                )
                for settings, each in zip(self.passes, surfaces, strict=True)
            ]
            found = self._layers_of_passes(convolutions)
            for index, layers in enumerate(found):
                yield from (self._pass_step(index, pack, layer) for layer in layers)
            is_followed_by_part = pack[0] + 2 * pack[1] > self.out_c
            if not self.alike or is_followed_by_part:
                weight_address += aligned(found[0][0].weight_bytes)

    def _paired_steps(self, pairs: RowPairs, source: Surface, output: Surface) -> Iterator[Step]:
        """The hardware layers of a convolution of pairs of rows."""
        address = sum(self.pack_weight_bytes(count, count) for _, count in self.packs())
        y = self._channel_operations(self.passes[0], 0).y is not None
        for pack in self.packs():
            surfaces = source, output
            single = self._pass_convolution(self.passes[0], 0, pairs.rows, surfaces, pack)
            whole = pairs.convolution(single, address)
            table = self._table_bytes(whole.kernels, y)
            for layer in divided(whole, table, self.out_packs, through_y=y):
                yield self._pass_step(0, pack, layer, pairs.outputs)
            address += self.pack_weight_bytes(whole.channels, whole.kernels, pairs.height)

    def pack_weight_bytes(self, channels: int, kernels: int, rows: int = 0) -> int:
        """Return the distance in bytes from the weights of a pack to those that follow.

        rows: the rows of a kernel; 0 for those of the task."""
        return aligned((rows or self.kernel_h) * self.kernel_w * channels * kernels)

    def with_pairs(self) -> Task:
        """Return the task with pairs of rows where these take fewer cycles."""
        pairs = RowPairs.of(self)
        if not self.by_pack or self.alike or len(self.passes) != 1 or pairs is None:
            return self
        surfaces = self._surfaces(0, 0, self.in_row_bytes, self.out_row_bytes)
        y = self._channel_operations(self.passes[0], 0).y is not None

        def single(first: int, end: int) -> Convolution:
            return self._pass_convolution(self.passes[0], first, end, surfaces, next(self.packs()))

        def cycles(one: Convolution) -> int:
            table = self._table_bytes(one.kernels, y)
            return divided_cycles(one, table, self.out_packs, through_y=y)

        rows = pairs.rows
        other = cycles(pairs.convolution(single(0, rows), 0))
        other += cycles(single(rows, self.out_h)) if rows < self.out_h else 0
        own = cycles(single(0, self.out_h))
        return replace(self, pairs=pairs) if other < own else self

    def _layers_of_passes(
        self, passes: Sequence[Convolution]
    ) -> Sequence[Sequence[ConvolutionLayer]]:
        """The hardware layers of each pass.  A single one may be divided by rows."""
        if len(passes) > 1:
            return layers_of_passes(passes)
        (only,), through_y = passes, self._channel_operations(self.passes[0], 0).y is not None
        packs = self.out_packs if self.by_pack else 1
        table_bytes = self._table_bytes(only.kernels, through_y)
        return (divided(only, table_bytes, packs, through_y=through_y),)

    def _table_bytes(self, channels: int, through_y: bool) -> int:
        """The bytes of the operands of some channels that SDP reads."""
        one = packed_bytes(1, 1, channels, self.hardware.memory_atom_bytes)
        return (2 + through_y) * one * OPERAND_BYTES

    def _pass_step(
        self, index: int, pack: tuple[int, int], layer: ConvolutionLayer, outputs: int = 1
    ) -> Step:
        """A hardware layer of pass `index`, which computes the output channels of `pack`.

        outputs: the number of output rows that are kernels of their own."""
        atom = self.hardware.memory_atom_bytes
        operations = self._channel_operations(self.passes[index], index, pack[0], outputs)
        layer = replace(layer, through_y=operations.y is not None)
        table = self._table_bytes(layer.kernels, layer.through_y)
        moved = replace(traffic_of_convolution(layer, atom), table=table)
        bases = {**CONVOLUTION_BASES, OUTPUT_REGISTER: Base.SCRATCH if index else Base.OUTPUT}
        if layer.through_y:
            bases["SDP_RDMA.D_EW_BASE_ADDR_LOW"] = Base.OPERANDS
        return Step(layer, moved, bases, operations)

    def _channel_operations(
        self, settings: PassSettings, index: int, channel: int = 0, outputs: int = 1
    ) -> SdpOperations:
        """What SDP's units do in pass `index`, from a channel on, with operands in memory.

        outputs: the number of output rows that are kernels of their own, with the same operands."""
        s, unit_bytes = settings, outputs * self.unit_bytes
        before = 2 * index if outputs == 1 else 2 + bool(s.right3)
        at = before * self.unit_bytes + outputs * channel * OPERAND_BYTES
        other = at + unit_bytes
        y = SdpUnitY(0, 1, other + unit_bytes, right_shift=s.right3, by_channel=True)
        return SdpOperations(
            per_channel(s.left1, s.right1, at, one_sided=s.clamps_first),
            per_channel(s.left2, s.right2, other, one_sided=s.one_sided),
            y if s.right3 else None,
        )

    def _moving_steps(self, rows: int, source: Surface, output: Surface) -> Iterator[Step]:
        """The layers that write an input of a concatenation to its channels of some output rows."""
        atom = self.hardware.memory_atom_bytes
        convolution = self.convolution(rows, source, output, Padding())
        address = self.weight_address
        for begin, end, channels in self.moved_kernels:
            part = replace(
                convolution,
                channels=channels,
                kernels=end - begin,
                output=_at_channel(output, begin, atom),
                weight_address=address,
            )
            address += aligned(channels * (end - begin))
            adds = begin < self.lead
            for layer in hardware_layers(part) if adds else divided(part):
                traffic = traffic_of_convolution(layer, atom)
                if adds:
                    traffic = replace(traffic, second=traffic.output)
                    operations = SdpOperations(added_elements(layer.output))
                    yield Step(layer, traffic, ADDING_BASES, operations)
                else:
                    yield Step(layer, traffic, MOVING_BASES)

    @property
    def moved_kernels(self) -> Sequence[tuple[int, int, int]]:
        """The first output channel, the end and the input channels of each convolution that moves
        channels of an input of a concatenation.

        The first one is a pack of its own if it begins with channels of earlier inputs."""
        pack = min(self.hardware.memory_atom_bytes, self.out_c)
        if not self.lead:
            return ((0, self.out_c, self.in_c),)
        found = (0, pack, pack - self.lead), (pack, self.out_c, self.in_c)
        return found[: 1 + (pack < self.out_c)]

    def _spreading_steps(self, rows: int, in_lines: int, out_lines: int) -> Iterator[Step]:
        """The layers that write each pixel of some rows to a pack of its own."""
        if rows > 1 and (in_lines, out_lines) != (self.in_row_bytes, self.out_row_bytes):
            for row in range(rows):
                for step in self._spreading_steps(1, self.in_row_bytes, self.out_row_bytes):
                    yield step.moved(row * in_lines, row * out_lines)
            return
        # The last block may be a part of one.
        block, total = spread_block(self)[0], rows * self.out_w
        pixels = ((-(-(total - k) // block), packs) for k, packs in enumerate(spread_packs(self)))
        present = ((k, one) for k, one in enumerate(pixels) if one[0])
        for (lines, packs), some in groupby(present, lambda each: each[1]):
            every = [self._spreading_layers(lines, k, packs) for k, _ in some]
            # Pixels in the same packs find these in the convolution buffer, if they fit there.
            fits, last = len(every[0]) == 1, len(every) - 1
            for k, layers in enumerate(every):
                reuse = Reuse(data=fits and k > 0, keep_data=fits and k < last)
                for layer in layers:
                    used = replace(layer, reuse=reuse) if fits else layer
                    traffic = traffic_of_convolution(used, self.hardware.memory_atom_bytes)
                    yield Step(used, traffic, MOVING_BASES)

    def _spreading_layers(
        self, lines: int, pixel: int, packs: tuple[int, int]
    ) -> tuple[ConvolutionLayer, ...]:
        """The layers that write a pixel of each of some blocks, from packs (first, count)."""
        atom, (first, count) = self.hardware.memory_atom_bytes, packs
        pixels, block = spread_block(self)
        convolution = Convolution(
            self.hardware,
            count,
            lines,
            atom,
            self.spreads,
            count,
            1,
            Surface(block, block, first * atom),
            Surface(pixels * atom, pixels * atom, pixel * atom),
            weight_address=pixel * spread_weight_bytes(self),
        )
        return hardware_layers(convolution)

    def packs(self) -> Iterator[tuple[int, int]]:
        """Yield (first channel, count) per convolution: all channels or, if `by_pack`, a pack."""
        if not self.by_pack:
            yield 0, self.out_c
            return
        atom = self.hardware.memory_atom_bytes
        for first in range(0, self.out_c, atom):
            yield first, min(atom, self.out_c - first)

    def _pass_convolution(
        self,
        settings: PassSettings,
        first: int,
        end: int,
        surfaces: tuple[Surface, Surface],
        pack: tuple[int, int],
    ) -> Convolution:
        """The convolution that computes output rows [first, end) of some output channels."""
        lower, upper = self.reads(first, end)
        source, output = surfaces
        (channel, count), atom = pack, self.hardware.memory_atom_bytes
        found = self.convolution(upper - lower, source, output, self._padding(first, end))
        return replace(
            found,
            channels=count if self.by_pack else self.in_c,
            kernels=count,
            source=_at_channel(source, channel, atom),
            output=_at_channel(output, channel, atom),
            conversion=pass_conversion(settings),
        )

    def _padding(self, first: int, end: int) -> Padding:
        """The padding that the windows of output rows [first, end) contain."""
        reach_w = (self.kernel_w - 1) * self.dilation_w + 1
        right = (self.out_w - 1) * self.stride_w + reach_w - self.pad_left - self.in_w
        top = self.pad_top - first * self.stride_h
        below = (end - 1) * self.stride_h - self.pad_top + self.reach_h - self.in_h
        return Padding(self.pad_left, max(0, right), max(0, top), max(0, below))

    def _sum(self, offset: int, rows: int, second: Surface, output: Surface) -> Step:
        """The layer that adds what is in scratch to some rows of the output, minus an offset."""
        conversion = Conversion(offset=offset)
        layer = SdpLayer(self.out_w, rows, self.out_c, second, output, conversion)
        size = packed_bytes(rows, self.out_w, self.out_c, self.hardware.memory_atom_bytes)
        moved = LayerTraffic(features=size, second=size, output=size)
        operations = SdpOperations(added_elements(output))
        return Step(layer, moved, SUM_BASES, operations)

    def _total_steps(self, rows: int, in_lines: tuple[int, int], out_lines: int) -> Iterator[Step]:
        """The layers that compute some rows of a sum of two tensors."""
        atom = self.hardware.memory_atom_bytes
        widths = (self.in_span or self.out_w, self.second_span or self.out_w)
        first, *others = self.total
        most = self.rows_at_once if others else rows
        for start in range(0, rows, most):
            count = min(most, rows - start)
            inputs = [
                Surface(lines, width * atom, start * lines)
                for lines, width in zip(in_lines, widths, strict=True)
            ]
            output = Surface(out_lines, (self.out_span or self.out_w) * atom, start * out_lines)
            yield self._total_step(first, count, inputs, output)
            for other in others:
                kept = self._kept()
                step = self._total_step(other, count, inputs, kept)
                yield replace(step, bases={**step.bases, OUTPUT_REGISTER: Base.SCRATCH})
                yield self._sum(LOWEST + HIGHEST - self.split, count, kept, output)

    def _total_step(
        self,
        total: SumSettings | UnitYSum,
        rows: int,
        inputs: Sequence[Surface],
        output: Surface,
    ) -> Step:
        """The layer that computes one pass of some rows of a sum."""
        atom = self.hardware.memory_atom_bytes
        places, (source, second) = [Base.INPUT, Base.SECOND], inputs
        if total.main != self.total[0].main:
            places, (second, source) = places[::-1], inputs
        if isinstance(total, UnitYSum):
            place = (second.address, second.line_stride, second.surface_stride)
            operations = SdpOperations(y=SdpUnitY(total.factor, total.weight, *place))
            added = {"SDP_RDMA.D_EW_BASE_ADDR_LOW": places[1]}
        else:
            operations, added = _sum_operations(total, (source, second), places)
        conversion = Conversion(total.offset, total.scale, total.shift)
        in_y = operations.y is not None
        layer = SdpLayer(self.out_w, rows, self.out_c, source, output, conversion, in_y)
        size = packed_bytes(rows, self.out_w, self.out_c, atom)
        moved = LayerTraffic(features=size, second=size * len(added), output=size)
        bases = {**COPY_BASES, "SDP_RDMA.D_SRC_BASE_ADDR_LOW": places[0], **added}
        return Step(layer, moved, bases, operations)

    def _function_steps(self, rows: int, in_lines: int, out_lines: int) -> Iterator[Step]:
        """The layers that compute a function of each element of some rows, or copy them."""
        most = self.rows_at_once if len(self.function) > 1 else rows
        for start in range(0, rows, most):
            count = min(most, rows - start)
            places = (start * in_lines, start * out_lines)
            source, output = self._surfaces(*places, in_lines, out_lines)
            yield self._single_step(count, source, output, 0)
            if len(self.function) > 1:
                kept = self._kept()
                yield self._single_step(count, source, kept, 1)
                yield self._sum(self.function[0].origin, count, kept, output)

    def _single_step(self, rows: int, source: Surface, output: Surface, index: int) -> Step:
        """The layer of SDP that computes pass `index` of a function of each element, or copies some
        rows.  The second pass writes to scratch."""
        operations, conversion, table = SdpOperations(), UNCHANGED, 0
        if self.function:
            settings = self.function[index]
            conversion = pass_conversion(settings)
            if self.shared:
                operations = _shared_operations(settings, self.shared[index])
            else:
                operations, table = self._channel_operations(settings, index), 2 * self.unit_bytes
        layer = SdpLayer(self.in_w, rows, self.in_c, source, output, conversion)
        size = packed_bytes(rows, self.in_w, self.in_c, self.hardware.memory_atom_bytes)
        moved = LayerTraffic(features=size, table=table, output=size)
        bases = {**COPY_BASES, **TABLE_BASES} if table else COPY_BASES
        if index:
            bases = {**bases, OUTPUT_REGISTER: Base.SCRATCH}
        return Step(layer, moved, bases, operations)

    def _pooling_steps(
        self, method: PoolingMethod, first: int, end: int, in_lines: int, out_lines: int
    ) -> Iterator[Step]:
        """The layers that compute output rows [first, end) by pooling, each of as many columns as
        the line buffer stores."""
        surfaces = self._surfaces(0, 0, in_lines, out_lines)
        most = widest_output(self.kernel_h, self.stride_h)
        for left in range(0, self.out_w, most):
            part = self.cropped((0, self.out_h), (left, min(self.out_w, left + most)))
            column = self.reads_columns(left, left + 1)[0]
            yield part._pooling_step(method, (first, end), surfaces, (column, left))

    def _pooling_step(
        self,
        method: PoolingMethod,
        rows: tuple[int, int],
        surfaces: tuple[Surface, Surface],
        columns: tuple[int, int],
    ) -> Step:
        """The layer that computes some output rows by pooling.

        columns: the columns of the surfaces, in points, at which input and output begin."""
        atom = self.hardware.memory_atom_bytes
        source, output = (
            replace(surface, address=surface.address + column * atom)
            for surface, column in zip(surfaces, columns, strict=True)
        )
        lower, upper = self.reads(*rows)
        padding = self._padding(*rows)
        used = (self.out_w - 1) * self.stride_w + self.kernel_w - padding.left - padding.right
        layer = PoolingLayer(
            method,
            min(self.in_w, used),
            upper - lower,
            self.in_c,
            self.kernel_w,
            self.kernel_h,
            source,
            output,
            self.stride_w,
            self.stride_h,
            padding,
        )
        return _pooling(layer, atom)

    def _averaging_steps(
        self, first: int, end: int, in_lines: int, out_lines: int
    ) -> Iterator[Step]:
        """The layers that compute output rows [first, end) by averages.  TFLite divides by the
        number of elements inside the image; each layer computes outputs of one such number."""
        atom, start = self.hardware.memory_atom_bytes, self.reads(first, end)[0]
        rows = spans((first, end), self.kernel_h, self.stride_h, self.pad_top, self.in_h)
        across = (self.kernel_w, self.stride_w, self.pad_left, self.in_w)
        for row in rows:
            most = widest_output(row.window, self.stride_h)
            parts = (
                one
                for left in range(0, self.out_w, most)
                for one in spans((left, min(self.out_w, left + most)), *across)
            )
            for column in parts:
                source, output = self._surfaces(
                    (row.lower - start) * in_lines + column.lower * atom,
                    (row.first - first) * out_lines + column.first * atom,
                    in_lines,
                    out_lines,
                )
                factors = reciprocals(row.window * column.window)
                assert factors is not None, "the averages must be exact"
                layer = PoolingLayer(
                    PoolingMethod.AVERAGE,
                    (column.count - 1) * self.stride_w + column.window,
                    (row.count - 1) * self.stride_h + row.window,
                    self.in_c,
                    column.window,
                    row.window,
                    source,
                    output,
                    self.stride_w,
                    self.stride_h,
                    factor_x=factors[0],
                    factor_y=factors[1],
                )
                yield _pooling(layer, atom)


def _at_channel(surface: Surface, channel: int, atom_bytes: int) -> Surface:
    """The part of a surface from a channel on, which begins a pack."""
    address = surface.address + channel // atom_bytes * surface.surface_stride
    return replace(surface, address=address)


def spread_block(task: Task) -> tuple[int, int]:
    """Return the least number of pixels that are whole packs as they are stored, and their size in
    bytes (`Task.spreads`)."""
    atom = task.hardware.memory_atom_bytes
    pixels = atom // math.gcd(atom, task.spreads)
    return pixels, pixels * task.spreads


def spread_packs(task: Task) -> Iterator[tuple[int, int]]:
    """Yield, for each pixel of a block, the first pack that contains its channels, and how many
    do."""
    atom = task.hardware.memory_atom_bytes
    for pixel in range(spread_block(task)[0]):
        first, last = pixel * task.spreads, (pixel + 1) * task.spreads - 1
        yield first // atom, last // atom - first // atom + 1


def spread_weight_bytes(task: Task) -> int:
    """Return the distance in bytes between the weights for the pixels of a block."""
    chip = task.hardware
    return aligned(2 * task.spreads * chip.memory_atom_bytes + chip.entry_bytes)


def _pooling(layer: PoolingLayer, atom_bytes: int) -> Step:
    moved = LayerTraffic(
        features=packed_bytes(layer.height, layer.width, layer.channels, atom_bytes),
        output=packed_bytes(layer.out_height, layer.out_width, layer.channels, atom_bytes),
    )
    return Step(layer, moved, POOLING_BASES)


def _sum_operations(
    settings: SumSettings, surfaces: tuple[Surface, Surface], places: Sequence[Base]
) -> tuple[SdpOperations, Mapping[str, Base]]:
    """(operations, bases): how units X1 and X2 of SDP compute a weighted sum of two inputs."""
    # The main input passes through both units.  X2 adds an input that it reads from memory, and so
    # does X1 unless `Ratio.left1` is None.
    # operations: the settings of both units.
    # bases: for each register with the address of an input that a unit reads, which input this is.
    # surfaces, places: those of the main and of the other input.
    ratio, left1 = settings.ratio, settings.ratio.left1
    repeats = ratio.again == ratio.main
    added = {"SDP_RDMA.D_BN_BASE_ADDR_LOW": places[0 if repeats else 1]}
    if left1 is not None:
        added["SDP_RDMA.D_BS_BASE_ADDR_LOW"] = places[1]
    source, second = surfaces
    again = source if repeats else second
    x1 = added_elements(None if left1 is None else second, left1 or 0, ratio.factor1)
    x2 = added_elements(again, ratio.left2, settings.factor2, settings.right)
    return SdpOperations(x1, x2), added


def _shared_operations(settings: PassSettings, operands: Sequence[int]) -> SdpOperations:
    addend1, factor1, addend2, factor2 = operands
    s = settings
    return SdpOperations(
        scaled(addend1, s.left1, factor1, s.right1, one_sided=s.clamps_first),
        scaled(addend2, s.left2, factor2, s.right2, one_sided=s.one_sided),
    )


def pass_conversion(settings: PassSettings) -> Conversion:
    """Return the constants of the converter for element = origin + sign * y (`PassSettings`)."""
    return Conversion(offset=-settings.sign * settings.origin, scale=settings.sign)


def aligned(weight_bytes: int) -> int:
    """Return `weight_bytes` rounded up to a multiple of 256, so that other weights can follow."""
    return -(-weight_bytes // WEIGHT_ALIGNMENT_BYTES) * WEIGHT_ALIGNMENT_BYTES


def copy_task(task: Task) -> Task:
    """Return a task whose output is a copy of the input of `task`.  The encoder computes single
    rows of this output, to copy input rows to scratch."""
    size = (task.in_w, task.in_h, task.in_c)
    return Task(task.hardware, *size, *size)
