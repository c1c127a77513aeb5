"""kernels: the variants of the kernel that runs an operator on the NPU, and their costs. An
`Offloaded` is an operator of the network that the NPU runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.uma import (
    Address,
    Array,
    Breakdown,
    Command,
    ConstantPrefetch,
    Filling,
    KernelCall,
    Offloaded,
    PlacedCall,
    TensorRows,
    maximum,
    minimum,
)
from penstock_ethos_u.call import EncodedOperation
from penstock_ethos_u.constants import encoded_weights, lookup_table, ohwi_weights
from penstock_ethos_u.cost import contiguous_cost
from penstock_ethos_u.encoding import EncodedConstants
from penstock_ethos_u.operation import (
    Operation,
    prefetch_choices,
    with_prefetched_segments,
)
from penstock_ethos_u.operators import operands, plain_operation
from penstock_ethos_u.performance import copying_cycles
from penstock_ethos_u.placed import PlacedCosts
from penstock_ethos_u.schedule import scheduled, scheduled_for_prefetch
from penstock_ethos_u.sequences import steps_of

# Numbers of output channels computed at a time that are tried because they determine the order, and
# so the compressed size, of weights.
BLOCK_DEPTHS = (8, 16)


@dataclass(frozen=True, slots=True)
class Variant:
    """A kernel of the NPU. The variants differ in how a call obtains its weights and biases, which
    are stored in segments of consecutive output channels.

    buffered: True if a call copies segments into buffers before use where this is faster; False if
        it always reads them where they are stored.
    prefetch_choice: selects the number of segments that an earlier call has copied, as an index in
        the list (0, *prefetch_choices(op)). For 8 segments, the list is (0, 1, 2, 4, 8). An index
        beyond the list selects 0 segments.
    biases: whether an earlier call has copied all biases (but no weights)."""

    buffered: bool
    prefetch_choice: int = 0
    biases: bool = False

    def operation(self, offloaded: Offloaded) -> tuple[Operation, EncodedConstants]:
        """Return the NPU operation of an offloaded operator, and its encoded weights and biases or
        its look-up table. The result is computed once and cached in `offloaded`."""
        found = offloaded.cache.get(self)
        if found is None:
            found = offloaded.cache[self] = self._operation(offloaded)
        return found

    def _operation(self, offloaded: Offloaded) -> tuple[Operation, EncodedConstants]:
        """Compute what `operation` returns, without a cache."""
        plain, steps = plain_operation(offloaded), steps_of(offloaded)
        if steps is not None or not plain.weighted:
            raw = steps.constants if steps is not None else lookup_table(offloaded, plain)
            count = 1 if self.prefetch_choice else 0
            return with_prefetched_segments(plain, count), EncodedConstants(raw, ())
        weights = ohwi_weights(offloaded)
        if self.prefetch_choice:
            op = scheduled_for_prefetch(plain, weights.size)
        else:
            op = scheduled(plain, weights.size, buffered=self.buffered)
        found = self._encoded(offloaded, op, weights)
        if (op.out_h, op.out_w) != (1, 1):
            return found
        # each weight is used once, so its size may matter most
        orders = (replace(op, block_depth=n) for n in BLOCK_DEPTHS if n < op.block_depth)
        able = (each for each in orders if each.fastest_block_and_cycles(each.work(1)))
        others = (self._encoded(offloaded, each, weights) for each in able)
        return min((found, *others), key=_cycles)

    def _encoded(
        self, offloaded: Offloaded, op: Operation, weights: Array
    ) -> tuple[Operation, EncodedConstants]:
        """Return an operation with its encoded constants, of which some may be prefetched."""
        constants = encoded_weights(offloaded, op, weights)
        sizes = [segment.size_bytes for segment in constants.segments]
        buffer = max(sizes) if op.buffer_bytes else 0
        op = replace(op, constant_bytes=sum(sizes), buffer_bytes=buffer, segment_bytes=tuple(sizes))
        if self.biases:
            return replace(op, prefetched_biases=True), constants
        counts = (0, *prefetch_choices(op))[self.prefetch_choice :][:1]
        return with_prefetched_segments(op, counts[0] if counts else 0), constants

    def prefetch(self, offloaded: Offloaded) -> ConstantPrefetch | None:
        """Return the prefetch that this variant requires: a copy of constants to the memory that
        holds tensors, where calls of the variant then read them.

        The result is None if the variant prefetches nothing, or if constants are stored in the
        memory that holds tensors anyway."""
        op, constants = self.operation(offloaded)
        steps, begin = steps_of(offloaded), 0
        if constants.segments:
            segments = constants.segments[: op.prefetched_segments]
            size = sum(segment.size_bytes for segment in segments)
            size += constants.segments[0].bias_bytes if op.prefetched_biases else 0
        else:  # tables, which follow numbers
            begin = len(steps.numbers) if steps else 0
            size = len(constants.raw) - begin if not steps or steps.only_tables else 0
        if not size or op.constants_in_sram:
            return None

        def commands(source: Address, target: Address) -> tuple[Command, ...]:
            first = replace(source, offset=source.offset + begin)
            return (KernelCall.transfer(first, target, size),)

        return ConstantPrefetch("constants", size, copying_cycles(op.configuration, size), commands)

    def tables(self, offloaded: Offloaded) -> Mapping[str, Array]:
        """Return the constant arrays that the compiler stores for the kernel, by name: a single
        array "constants", which contains the encoded weights and biases or the look-up table; none
        if the operation has neither."""
        _, constants = self.operation(offloaded)
        return {"constants": np.frombuffer(constants.raw, np.uint8)} if constants.raw else {}

    def scratch_bytes(self, offloaded: Offloaded) -> int:
        """Return the size of the working memory (scratch) in bytes of a call whose input rows are
        not scattered in memory."""
        steps = steps_of(offloaded)
        return steps.scratch_bytes if steps else self.operation(offloaded)[0].scratch_bytes

    def scattered_scratch_bytes(self, offloaded: Offloaded) -> int:
        """Return the most that `placed_scratch` may return."""
        op = self.operation(offloaded)[0]
        if op.gather_bytes and not steps_of(offloaded):
            return op.gather_offset + op.gather_bytes
        return self.scratch_bytes(offloaded)

    def placed_scratch(self, offloaded: Offloaded, call: PlacedCall) -> int:
        """Return the size of the working memory (scratch) in bytes of a call, given the addresses
        of the rows of its tensors."""
        return self._placed(offloaded).scratch_bytes(call)

    def compute(self, call: KernelCall) -> Sequence[Command]:
        """Return the commands of a call: a single one, which makes the NPU compute the output rows
        of the call."""
        op, constants = self.operation(call)
        return [
            call.issue(
                _encoded(call, op, constants),
                _inputs(call, op),
                tables=[call.table("constants")] if constants.raw else [],
                scratch=call.scratch if call.scratch_buffer else None,
                prefetched=call.prefetched if op.prefetched else None,
            )
        ]

    def cost(self, offloaded: Offloaded, rows: int) -> Breakdown:
        """Return the cost of a call that computes `rows` output rows, assuming that the rows of
        every tensor are contiguous."""
        return self.filled_cost(offloaded, rows, ())

    def filled_cost(
        self, offloaded: Offloaded, rows: int, fillings: tuple[Filling, ...]
    ) -> Breakdown:
        """Return the cost of a call that computes `rows` output rows and also copies constants,
        assuming that the rows of every tensor are contiguous.

        fillings: the copies of constants that the call makes, for itself or for later calls."""
        op, constants = self.operation(offloaded)
        cost = contiguous_cost(_encoded(offloaded, op, constants), rows, fillings)
        return _with_submission(offloaded, cost)

    def placed_cost(self, offloaded: Offloaded, call: PlacedCall) -> Breakdown:
        """Return the cost of a call, given the addresses of the rows of its tensors."""
        return _with_submission(offloaded, self._placed(offloaded).cost(call))

    def _placed(self, offloaded: Offloaded) -> PlacedCosts:
        key = self, "placed"
        found = offloaded.cache.get(key)
        if found is None:
            op, constants = self.operation(offloaded)
            encoded = _encoded(offloaded, op, constants)
            found = offloaded.cache[key] = PlacedCosts(encoded, _sources(offloaded, op))
        return found


def _with_submission(offloaded: Offloaded, cost: Breakdown) -> Breakdown:
    """The cost of a call with the cycles that the submission of a stream takes, if the call is the
    first one of it: consecutive calls are one stream."""
    cycles = int(offloaded.target.attrs["submission"])
    return replace(cost, cold_start=cycles) if cycles else cost


def _cycles(found: tuple[Operation, EncodedConstants]) -> float:
    op, constants = found
    return contiguous_cost(EncodedOperation(op, constants.segments), op.out_h).cycles


def _encoded(offloaded: Offloaded, op: Operation, constants: EncodedConstants) -> EncodedOperation:
    return EncodedOperation(op, constants.segments, steps_of(offloaded))


def _sources(offloaded: Offloaded, op: Operation) -> tuple[int, ...]:
    """Return, for each input of the NPU operation, its index among the inputs of the offloaded
    sub-graph (the main operator and those fused with it)."""
    if steps_of(offloaded):
        return tuple(map(offloaded.input_index, range(len(offloaded.main.inputs))))
    first, second = operands(offloaded)
    if op.second_tensor is None:
        return (offloaded.input_index(first),)
    return offloaded.input_index(first), offloaded.input_index(second)


def _inputs(call: KernelCall, op: Operation) -> list[TensorRows]:
    """Return, for each input of the operation, the rows that the call reads. The bounds of these
    rows are symbolic expressions of `call.first` and `call.end`: the call computes output rows
    [first, end)."""
    sources = [call.operands[k] for k in _sources(call, op)]
    steps = steps_of(call)
    if steps is not None:
        # All rows have addresses, also those that the call does not read.
        return [source.rows(0, n) for source, n in zip(sources, steps.extents, strict=True)]
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
