"""KernelChoices: the scratch sizes that a cascade may use, and the kernels that run with them.

Scratch is temporary memory of a kernel call.  The parts of a cascade share one scratch buffer.  A
part runs its preferred kernel if the buffer is large enough, else its fallback kernel.  So the only
sizes worth trying are those that some part's kernel needs.  A part that runs alone may also have
constants prefetched.

Costs are estimates for the search.  They assume that all kernels of a part without prefetches have
the same call overhead, and that every prefetch stalls its cascade.  `CostAccounting` computes exact
costs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from penstock.ir.op import row_count
from penstock.scheduling.cascades.candidate import Candidate, ValuedCandidate
from penstock.scheduling.model.cost import CostModel
from penstock.scheduling.model.memory_assignment import MemoryAssignment
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.prefetch import Prefetch, PrefetchStart


class PrefetchChoice(NamedTuple):
    """A kernel that reads prefetched constants, compared with the part's preferred kernel.

    prefetch: the copy of the constants that the kernel reads.
    scratch_bytes: scratch memory of the kernel.
    work_cycles: additional cycles of computing all rows of the part, plus the cycles of the copy;
        negative if the kernel saves more cycles than the copy takes.
    call_cycles: additional overhead of each call; may be negative.
    """

    prefetch: Prefetch
    scratch_bytes: int
    work_cycles: int
    call_cycles: int


@dataclass(frozen=True, slots=True)
class KernelChoices:
    """The kernels that each part of an execution order may run.

    A part runs its preferred kernel if there is enough scratch memory, else its fallback kernel.
    All fields are indexed by the part's position in the order.

    least: fewest scratch bytes with which the part can run.
    preferred: scratch bytes of the preferred kernel.
    slowdown: how many more cycles the fallback kernel takes for all rows than the preferred one; 0
        if there is no fallback kernel.
    prefetching: the kernels that read prefetched constants.
    rows: number of output rows.
    """

    least: tuple[int, ...]
    preferred: tuple[int, ...]
    slowdown: tuple[int, ...]
    prefetching: tuple[tuple[PrefetchChoice, ...], ...]
    rows: tuple[int, ...]

    @staticmethod
    def of(
        parts: Parts, order: tuple[int, ...], model: CostModel, memory: MemoryAssignment
    ) -> KernelChoices:
        """Return the kernels that the parts of an execution order may run.

        order: indices of the parts.
        memory: defines the region of constants, and the default region, to which constants are
            prefetched.
        """
        steps = [parts.parts[k] for k in order]
        return KernelChoices(
            tuple(part.least_scratch_bytes for part in steps),
            tuple(part.kernel.scratch_bytes for part in steps),
            tuple(_slowdown(part, model) for part in steps),
            tuple(
                tuple(_prefetch_choices(k, part, model, memory))
                for k, part in zip(order, steps, strict=True)
            ),
            tuple(row_count(part.output.type.shape) for part in steps),
        )

    def valued(
        self,
        cascade: Candidate,
        peak_bytes: int,
        time: int,
        states: tuple[MemoryAssignment, MemoryAssignment],
        units_per_cycle: int = 1,
    ) -> Iterator[ValuedCandidate]:
        """Yield the cascade, with its estimated cost, for each useful size of its scratch buffer.

        The parts use the buffer one after the other.  The useful sizes are the least one with which
        all parts can run, and each larger one that the preferred kernel of some part needs.  A
        cascade of a single part is also yielded with each of the part's kernels that read
        prefetched constants.

        peak_bytes: live bytes at the peak with the least scratch memory.
        time: time if all parts run their preferred kernels, in units of 1/`units_per_cycle` cycle.
        states: (before, after): memory assignments of the tensors that are live when the cascade
            begins, and when it ends.
        """
        inside = slice(cascade.lower, cascade.upper)
        least, preferred = max(self.least[inside]), self.preferred[inside]
        if cascade.upper - cascade.lower == 1:
            others = peak_bytes - least
            yield from self._variants_of_part(cascade, others, time, states, units_per_cycle)
        if max(preferred) <= least == cascade.scratch_bytes:  # true of most cascades
            yield ValuedCandidate(cascade, peak_bytes, time, *states)
            return
        for scratch in sorted({least, *(n for n in preferred if n > least)}):
            pairs = zip(preferred, self.slowdown[inside], strict=True)
            more = sum(slowdown for needed, slowdown in pairs if needed > scratch)
            candidate = (
                cascade if scratch == cascade.scratch_bytes else cascade.with_scratch(scratch)
            )
            peak = peak_bytes + scratch - least
            yield ValuedCandidate(candidate, peak, time + more * units_per_cycle, *states)

    def _variants_of_part(
        self,
        cascade: Candidate,
        others_bytes: int,
        time: int,
        states: tuple[MemoryAssignment, MemoryAssignment],
        units_per_cycle: int,
    ) -> Iterator[ValuedCandidate]:
        """Yield a variant of a cascade for each kernel of its part that reads prefetched constants.

        A variant includes the prefetch that the kernel needs.
        cascade: consists of a single part.
        others_bytes: live bytes at the peak of `cascade`, without its scratch memory.
        time: time of `cascade` if the part runs its preferred kernel, in units of
            1/`units_per_cycle` cycle.
        states: (before, after): memory assignments of the tensors that are live when the cascade
            begins, and when it ends.  They are the same for all variants.
        """
        position, rows = cascade.lower, self.rows[cascade.lower]
        calls = -(-rows // min(rows, cascade.stripe))
        for choice in self.prefetching[position]:
            more = choice.work_cycles + calls * choice.call_cycles
            prefetches = (*cascade.prefetches, choice.prefetch)
            variant = replace(cascade, scratch_bytes=choice.scratch_bytes, prefetches=prefetches)
            size = choice.prefetch.size_bytes
            peak = others_bytes + choice.scratch_bytes + size
            yield ValuedCandidate(variant, peak, time + more * units_per_cycle, *states, size)


def _prefetch_choices(
    k: int, part: Part, model: CostModel, memory: MemoryAssignment
) -> Iterator[PrefetchChoice]:
    for kernel in part.prefetching:
        assert kernel.prefetch is not None
        prefetch = Prefetch.by_accelerator(k, kernel.prefetch, memory, PrefetchStart.OWN_CASCADE)
        other = part.with_kernel(kernel)
        work = model.work_cycles(other) - model.work_cycles(part) + round(kernel.prefetch.cycles)
        calls = model.call_cycles(other) - model.call_cycles(part)
        yield PrefetchChoice(prefetch, kernel.scratch_bytes, work, calls)


def _slowdown(part: Part, model: CostModel) -> int:
    """Return how many more cycles a part's fallback kernel takes than its preferred kernel.

    The cycles are those of all rows.  The result is 0 if there is no fallback kernel.
    """
    if part.fallback is None:
        return 0
    return model.work_cycles(part.within(0)) - model.work_cycles(part)
