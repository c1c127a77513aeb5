"""kernels: the variants in which the NPU runs an operator, and their costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.accelerators.ethos_u.call import EncodedOperation
from penstock.accelerators.ethos_u.constants import encoded_weights, lookup_table, ohwi_weights
from penstock.accelerators.ethos_u.cost import assumed
from penstock.accelerators.ethos_u.encoding import EncodedConstants
from penstock.accelerators.ethos_u.operation import NpuFunction, Operation
from penstock.accelerators.ethos_u.operators import operands, pieces, plain_operation
from penstock.accelerators.ethos_u.performance import copying_cycles
from penstock.accelerators.ethos_u.placed import PlacedCosts
from penstock.accelerators.ethos_u.schedule import scheduled, scheduled_for_prefetch
from penstock.accelerators.ethos_u.segments import prefetch_choices, with_prefetched_segments
from penstock.uma import (
    Address,
    Array,
    Breakdown,
    Command,
    Fetch,
    Filling,
    KernelCall,
    Offloaded,
    PlacedCall,
    TensorRows,
    maximum,
    minimum,
)


@dataclass(frozen=True, slots=True)
class Variant:
    """A way to run an operator with weights.

    The call reads its constants where they are stored, or copies them into buffers before use if
    `buffered`.  An earlier call may prefetch some of them: if `share` is not 0, as many segments as
    that choice of `prefetch_choices`, counted from 1; or all biases, if `biases`."""

    buffered: bool
    share: int = 0
    biases: bool = False

    def operation(self, offloaded: Offloaded) -> tuple[Operation, EncodedConstants]:
        """The operation of the main operator, and its constants."""
        if self not in offloaded.notes:
            offloaded.notes[self] = self._operation(offloaded)
        return offloaded.notes[self]

    def _operation(self, offloaded: Offloaded) -> tuple[Operation, EncodedConstants]:
        """As `operation`, computed."""
        plain = plain_operation(offloaded)
        if not plain.weighted:
            return plain, EncodedConstants(lookup_table(offloaded, plain), ())
        weights = ohwi_weights(offloaded)
        if self.share:
            op = scheduled_for_prefetch(plain, weights.size)
        else:
            op = scheduled(plain, weights.size, buffered=self.buffered)
        constants = encoded_weights(offloaded, op, weights)
        sizes = [segment.size_bytes for segment in constants.segments]
        buffer = max(sizes) if op.buffer_bytes else 0
        op = replace(op, constant_bytes=sum(sizes), buffer_bytes=buffer)
        if self.biases:
            return replace(op, prefetched_biases=True), constants
        counts = (0, *prefetch_choices(op))[self.share :][:1]
        return with_prefetched_segments(op, counts[0] if counts else 0), constants

    def fetch(self, offloaded: Offloaded) -> Fetch | None:
        """The prefetch that the variant relies on; None if it does not apply to the operator."""
        op, constants = self.operation(offloaded)
        if not op.weighted or not op.prefetched or op.constants_in_sram:
            return None
        segments = constants.segments[: op.prefetched_segments]
        size = sum(segment.size_bytes for segment in segments)
        size += constants.segments[0].bias_bytes if op.prefetched_biases else 0

        def commands(source: Address, target: Address) -> tuple[Command, ...]:
            return (KernelCall.transfer(source, target, size),)

        return Fetch("constants", size, copying_cycles(op.configuration, size), commands)

    def tables(self, offloaded: Offloaded) -> Mapping[str, Array]:
        """The encoded constants, or the look-up table of an activation."""
        _, constants = self.operation(offloaded)
        return {"constants": np.frombuffer(constants.raw, np.uint8)} if constants.raw else {}

    def scratch_bytes(self, offloaded: Offloaded) -> int:
        """Bytes of scratch."""
        return self.operation(offloaded)[0].scratch_bytes

    def compute(self, call: KernelCall) -> Sequence[Command]:
        """The commands of a call: one operation."""
        op, constants = self.operation(call)
        return [
            call.issue(
                _encoded(call, op, constants),
                _inputs(call, op),
                tables=[call.table("constants")] if constants.raw else [],
                scratch=call.scratch if op.scratch_bytes else None,
                prefetched=call.fetched if op.prefetched else None,
            )
        ]

    def cost(self, offloaded: Offloaded, rows: int) -> Breakdown:
        """Cycles of a call that computes `rows` rows."""
        return self.filled_cost(offloaded, rows, ())

    def filled_cost(
        self, offloaded: Offloaded, rows: int, fillings: tuple[Filling, ...]
    ) -> Breakdown:
        """Cycles of a call that computes `rows` rows and copies constants, some for later calls."""
        op, constants = self.operation(offloaded)
        return assumed(_encoded(offloaded, op, constants), rows, fillings)

    def placed_cost(self, offloaded: Offloaded, call: PlacedCall) -> Breakdown:
        """Cycles of a call whose tensors have addresses."""
        key = self, "placed"
        if key not in offloaded.notes:
            op, constants = self.operation(offloaded)
            encoded = _encoded(offloaded, op, constants)
            offloaded.notes[key] = PlacedCosts(encoded, _sources(offloaded, op))
        return offloaded.notes[key].of(call)


def _encoded(offloaded: Offloaded, op: Operation, constants: EncodedConstants) -> EncodedOperation:
    """The operation as a call issues it."""
    is_copy = op.function is NpuFunction.COPY
    return EncodedOperation(op, constants.segments, pieces(offloaded) if is_copy else ())


def _sources(offloaded: Offloaded, op: Operation) -> tuple[int, ...]:
    """For each input of the operation, the number of the input of the composite."""
    if op.function is NpuFunction.COPY:
        return tuple(map(offloaded.source, range(len(offloaded.main.inputs))))
    first, second = operands(offloaded)
    if op.second_tensor is None:
        return (offloaded.source(first),)
    return offloaded.source(first), offloaded.source(second)


def _inputs(call: KernelCall, op: Operation) -> list[TensorRows]:
    """The rows of each input that the call reads."""
    sources = [call.operands[k] for k in _sources(call, op)]
    if op.function is NpuFunction.COPY:
        return [source.rows(call.first, call.end) for source in sources]
    more = op.upscale - 1  # rounds up
    lower = maximum((call.first * op.stride_h - op.pad_top + more) // op.upscale, 0)
    upper = (call.end - 1) * op.stride_h - op.pad_top + op.reach_h
    upper = minimum((upper + more) // op.upscale, op.in_h)
    found = [sources[0].rows(lower, upper)]
    second = op.second_tensor
    if second is not None:
        whole = second.shape.height == op.out_h
        found.append(sources[1].rows(call.first, call.end) if whole else sources[1].rows(0, 1))
    return found
