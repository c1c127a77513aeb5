"""The Pareto front of placed schedules as data, JSON and CSV.

frontier.json and frontier.csv contain no times, so equal frontiers yield equal bytes.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from penstock.brief import Brief
from penstock.choices import Optimize
from penstock.frozen import frozen
from penstock.reports.codec import Json, encoded_fields, named
from penstock.reports.command import CompileCommand
from penstock.reports.making import striped
from penstock.reports.report import CascadeReport
from penstock.revision import described
from penstock.scheduling.model.schedule import Schedule

SCHEMA = "penstock-frontier-1"


@frozen
class MovedBytes:
    """Bytes of the regions that kernels read from and write to one memory."""

    read: int
    written: int

    @property
    def total(self) -> int:
        return self.read + self.written


@frozen(repr=False)
class FrontierPoint(Brief):
    """One point of the front: a schedule and its placement.

    `ram_bytes` is the sum of the arena, the `static_bytes` of other memories, and the stack
    reserve. `live_bytes` is the peak of the live bytes in the arena, a lower bound for every
    placement of this schedule. `moved_bytes` is the traffic by memory.
    """

    ram_bytes: int
    arena_bytes: int
    static_bytes: int
    live_bytes: int
    cycles: int
    calls: int
    macs_executed: int
    macs_constant: int
    moved_bytes: Mapping[str, MovedBytes]
    cascades: tuple[CascadeReport, ...]

    @property
    def gap_bytes(self) -> int:
        """Overhead of placement: arena bytes above the peak of live bytes."""
        return self.arena_bytes - self.live_bytes


@frozen(repr=False)
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
    macs: int = field(metadata=named("macs_model"))
    stack_bytes: int
    limit_bytes: int
    stream_input: bool
    choices: tuple[FrontierPoint, ...] = field(metadata=named("frontier"))
    optimize: Optimize
    chosen: int | None
    streamed: tuple[FrontierPoint, ...] | None = field(metadata=named("frontier_streamed_input"))
    version: str
    command: CompileCommand = field(metadata=named("command_parts"))
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
            **encoded_fields(self),
            "frontier": [self._point(choice) for choice in self.choices],
            "frontier_streamed_input": (
                None if streamed is None else [self._point(choice) for choice in streamed]
            ),
            "command": str(self.command),
        }

    def _point(self, choice: FrontierPoint) -> dict[str, Json]:
        """A point for frontier.json, with the duration of an inference if it is known."""
        found = encoded_fields(choice)
        if self.clock_hz is not None:
            found["milliseconds"] = round(1000 * choice.cycles / self.clock_hz, 6)
        return found

    def as_csv(self) -> str:
        """Return the contents of frontier.csv: one line per point, those with a streamed input
        last. Cascades are written as layers x rows."""
        memories = self.choices[0].moved_bytes
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
            *(size for m in choice.moved_bytes.values() for size in (m.read, m.written)),
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
        {name: MovedBytes(read.get(name, 0), written.get(name, 0)) for name in memories},
        striped(schedule),
    )
