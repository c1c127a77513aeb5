"""The Pareto front of placed schedules as data, JSON and CSV.

frontier.json and frontier.csv contain no times, so equal frontiers yield equal bytes.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from penstock.brief import Brief
from penstock.choices import Optimize
from penstock.reports.command import CompileCommand
from penstock.reports.json_value import Json
from penstock.reports.report import CascadeReport, striped
from penstock.revision import described
from penstock.scheduling.model.schedule import Schedule

SCHEMA = "penstock-frontier-1"


@dataclass(frozen=True, slots=True)
class MemoryTraffic:
    """Bytes of the regions that kernels read from and write to one memory."""

    memory: str
    read_bytes: int
    written_bytes: int

    @property
    def total_bytes(self) -> int:
        return self.read_bytes + self.written_bytes


@dataclass(frozen=True, slots=True, repr=False)
class FrontierPoint(Brief):
    """One point of the front: a schedule and its placement.

    `ram_bytes` is the sum of the arena, the `static_bytes` of other memories, and the stack
    reserve. `live_bytes` is the peak of the live bytes in the arena, a lower bound for every
    placement of this schedule.
    """

    ram_bytes: int
    arena_bytes: int
    static_bytes: int
    live_bytes: int
    cycles: int
    calls: int
    macs_executed: int
    macs_constant: int
    moved: tuple[MemoryTraffic, ...]
    cascades: tuple[CascadeReport, ...]

    @property
    def gap_bytes(self) -> int:
        """Overhead of placement: arena bytes above the peak of live bytes."""
        return self.arena_bytes - self.live_bytes

    def as_json(self) -> dict[str, Json]:
        return {
            "ram_bytes": self.ram_bytes,
            "arena_bytes": self.arena_bytes,
            "static_bytes": self.static_bytes,
            "live_bytes": self.live_bytes,
            "cycles": self.cycles,
            "calls": self.calls,
            "macs_executed": self.macs_executed,
            "macs_constant": self.macs_constant,
            "moved_bytes": {
                m.memory: {"read": m.read_bytes, "written": m.written_bytes} for m in self.moved
            },
            "cascades": [asdict(cascade) for cascade in self.cascades],
        }


@dataclass(frozen=True, slots=True, repr=False)
class FrontierReport(Brief):
    """All points of the front, least memory first.

    `limit_bytes` is the budget or the size of the target's memory. `chosen` is the index of the
    point that the goal `optimize` selects among those that fit, or None if none fits. If the input
    is an array, `streamed` contains the front for a streamed input, which is scheduled separately;
    otherwise it is None. `version` and `commit` are those of penstock; `commit` is empty if it is
    not known. `command` compiles the network with the same options. `clock_hz` is the clock of the
    target, if known.
    """

    model: str
    target: str
    macs: int
    stack_bytes: int
    limit_bytes: int
    stream_input: bool
    choices: tuple[FrontierPoint, ...]
    optimize: Optimize
    chosen: int | None
    streamed: tuple[FrontierPoint, ...] | None
    version: str
    command: CompileCommand
    clock_hz: int | None = None
    commit: str = ""

    @property
    def compiler(self) -> str:
        """The compiler, with its version, and its commit if that is known."""
        return f"penstock {described(self.version, self.commit)}"

    @property
    def fastest_cycles(self) -> int:
        """Cycles of the fastest point."""
        return self.choices[-1].cycles

    def factor(self, choice: FrontierPoint) -> float:
        """Return executed divided by nominal multiply-accumulates, or 1.0 if the model has none.

        Operations omitted because their result is constant count as executed, so the factor exceeds
        1 only if something is recomputed.
        """
        return (choice.macs_executed + choice.macs_constant) / self.macs if self.macs else 1.0

    def slowdown(self, choice: FrontierPoint) -> float:
        """Return the cycles above those of the fastest point, as a fraction of the latter."""
        return choice.cycles / max(1, self.fastest_cycles) - 1.0

    def as_json(self) -> dict[str, Json]:
        """Return the contents of frontier.json."""
        streamed = self.streamed
        return {
            "schema": SCHEMA,
            "model": self.model,
            "target": self.target,
            "macs_model": self.macs,
            "stack_bytes": self.stack_bytes,
            "limit_bytes": self.limit_bytes,
            "stream_input": self.stream_input,
            "optimize": self.optimize,
            "chosen": self.chosen,
            "frontier": [self._point(choice) for choice in self.choices],
            "frontier_streamed_input": (
                None if streamed is None else [self._point(choice) for choice in streamed]
            ),
            "version": self.version,
            "commit": self.commit,
            "command": str(self.command),
            "clock_hz": self.clock_hz,
        }

    def _point(self, choice: FrontierPoint) -> dict[str, Json]:
        """Return a point for frontier.json, with the duration of an inference if it is known."""
        found = choice.as_json()
        if self.clock_hz is not None:
            found["milliseconds"] = round(1000 * choice.cycles / self.clock_hz, 6)
        return found

    def as_csv(self) -> str:
        """Return the contents of frontier.csv: one line per point, those with a streamed input
        last. Cascades are written as layers x rows."""
        memories = [moved.memory for moved in self.choices[0].moved]
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(
            [
                *("input", "chosen", "ram_bytes", "arena_bytes", "static_bytes", "live_bytes"),
                *("cycles", "calls", "macs_executed", "macs_factor"),
                *(f"{way}_bytes_{memory}" for memory in memories for way in ("read", "written")),
                "cascades",
            ]
        )
        writer.writerows(self._lines())
        return out.getvalue()

    def _lines(self) -> Iterator[list[str | int]]:
        kind = "streamed" if self.stream_input else "array"
        for k, choice in enumerate(self.choices):
            yield self._line(kind, int(k == self.chosen), choice)
        for choice in self.streamed or ():
            yield self._line("streamed", 0, choice)

    def _line(self, kind: str, chosen: int, choice: FrontierPoint) -> list[str | int]:
        return [
            *(kind, chosen, choice.ram_bytes, choice.arena_bytes, choice.static_bytes),
            *(
                choice.live_bytes,
                choice.cycles,
                choice.calls,
                choice.macs_executed,
                f"{self.factor(choice):.4f}",
            ),
            *(size for m in choice.moved for size in (m.read_bytes, m.written_bytes)),
            " ".join(f"{c.layers}x{c.rows}" for c in choice.cascades),
        ]


def choice(
    schedule: Schedule, heights: Sequence[int], stack_bytes: int, memories: Sequence[str]
) -> FrontierPoint:
    """Return the point of a placed schedule.

    `heights` are the bytes of the arena and of the other memories; `memories` names the memories
    whose traffic is reported.
    """
    arena, *others = heights
    cost = schedule.cost
    read, written = dict(cost.read_bytes), dict(cost.written_bytes)
    return FrontierPoint(
        sum(heights) + stack_bytes,
        arena,
        sum(others),
        schedule.peak_bytes,
        cost.cycles,
        cost.calls,
        cost.macs,
        cost.constant_macs,
        tuple(MemoryTraffic(name, read.get(name, 0), written.get(name, 0)) for name in memories),
        striped(schedule),
    )
