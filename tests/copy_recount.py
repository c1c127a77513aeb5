"""Recounts the cycles of a program with copies, command by command.

It shares no code with the accounting of the search: it follows the commands of the run, with a
clock for the processor and one for the copy engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from penstock.hardware.target import MemoryRegion, Target
from penstock.ir.op import row_before, row_count
from penstock.ir.region import Region
from penstock.program.expr import evaluate
from penstock.program.program import Call, Command, Copy, Loop, Program, View, Wait
from penstock.program.unroll import iterations
from penstock.simulators.memories import evaluate_box


@dataclass
class Recount:
    """The two clocks: `now` of the processor, `free` when the copy engine has done all copies."""

    target: Target
    program: Program
    now: Fraction = Fraction(0)
    free: Fraction = Fraction(0)
    complete: dict[str, Fraction] = field(default_factory=dict[str, Fraction])
    counters: dict[str, int] = field(default_factory=dict[str, int])

    @staticmethod
    def cycles(target: Target, program: Program) -> Fraction:
        """Cycles of a run."""
        found = Recount(target, program)
        found._run(program.run, {})
        return found.now

    def _run(self, commands: tuple[Command, ...], variables: Mapping[str, int]) -> None:
        for command in commands:
            match command:
                case Loop():
                    for inside in iterations(command, variables, self.counters):
                        self._run(command.body, inside)
                case Call():
                    self.now += self._call(command, variables)
                case Copy():
                    self._copy(command, variables)
                case Wait(_, token):
                    self.now = max(self.now, self.complete.get(token, self.now))
                case _:
                    raise AssertionError(command)

    def _memory(self, view: View) -> MemoryRegion:
        name = self.program.buffer(view.buffer).memory
        return next(memory for memory in self.target.memories if memory.name == name)

    def _copy(self, copy: Copy, variables: Mapping[str, int]) -> None:
        """Copies row by row, each in a transfer of its own."""
        assert self.target.copier is not None
        ends = self._memory(copy.source), self._memory(copy.target)
        slowest = min(memory.bandwidth_bytes_per_cycle for memory in ends)
        row = -(-copy.source.row_bytes // Fraction(slowest))
        for _ in range(evaluate(copy.lower, variables), evaluate(copy.upper, variables)):
            self.now += self.target.copier.setup_cycles
            self.free = max(self.free, self.now) + sum(m.latency_cycles for m in ends) + row
        if copy.token is None:
            self.now = max(self.now, self.free)
        else:
            self.complete[copy.token] = self.free

    def _call(self, call: Call, variables: Mapping[str, int]) -> Fraction:
        engine = self.target.engines[0]
        out = evaluate_box(call.out, variables)
        if out.empty:
            return Fraction(0)
        whole = Region.whole(call.output.type.shape)
        work = call.op.work(call.site, whole)
        cycles = round(
            work.macs * engine.cycles_per_mac
            + work.elements * engine.cycles_per_element
            + work.loops * engine.cycles_per_loop
        )
        total = Fraction(cycles * row_count(out.shape), row_count(whole.shape))
        total += round(engine.cycles_per_call)
        needs = call.op.needs(call.site, out)
        accessed = [(call.output, out), *zip(call.inputs, needs, strict=True)]
        accessed += [(call.output, row_before(out))] if call.kernel.recurrent else []
        for view, region in accessed:
            memory, size = self._memory(view), region.elements * view.type.dtype.size_bytes
            rates = memory.bandwidth_bytes_per_cycle, engine.bandwidth_bytes_per_cycle
            slower = max(0, 1 / Fraction(rates[0]) - 1 / Fraction(rates[1]))
            total += memory.latency_cycles * (size > 0) + size * slower
        return total
