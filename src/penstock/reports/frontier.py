"""frontier: what there is to choose from: every efficient schedule of a network, as it is placed.

frontier.json and frontier.csv say all of it, without times: equal frontiers give equal bytes.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from penstock.brief import Brief
from penstock.reports.report import Json, Striped, striped
from penstock.scheduling.schedule import Schedule
from penstock.scheduling.selection import Optimize

SCHEMA = "penstock-frontier-1"


@dataclass(frozen=True, slots=True)
class Moved:
    """Bytes of regions that kernels read from a memory and write to it."""

    memory: str
    read_bytes: int
    written_bytes: int

    @property
    def total_bytes(self) -> int:
        return self.read_bytes + self.written_bytes


@dataclass(frozen=True, slots=True, repr=False)
class Choice(Brief):
    """A schedule that a budget may pick.

    `ram_bytes`: the arena, `static_bytes` of other memories, and the stack; `live_bytes`: of the
    arena, what is alive at the worst moment, so that no placement of the schedule is lower."""

    ram_bytes: int
    arena_bytes: int
    static_bytes: int
    live_bytes: int
    cycles: int
    calls: int
    macs_executed: int
    macs_constant: int
    moved: tuple[Moved, ...]
    cascades: tuple[Striped, ...]

    @property
    def gap_bytes(self) -> int:
        """What placement costs: bytes of the arena above the live ones."""
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
class Choices(Brief):
    """All choices, least memory first.

    `limit_bytes`: what the budget or the target's memory allows; `chosen`: index of the one that
    the goal `optimize` selects of those that fit, None where none does.  `streamed`: where the
    input is an array, the choices if it were streamed, planned anew; else None."""

    model: str
    target: str
    macs: int
    stack_bytes: int
    limit_bytes: int
    stream_input: bool
    choices: tuple[Choice, ...]
    optimize: Optimize
    chosen: int | None
    streamed: tuple[Choice, ...] | None

    @property
    def fastest_cycles(self) -> int:
        """Cycles of the fastest choice."""
        return self.choices[-1].cycles

    def factor(self, choice: Choice) -> float:
        """F: nominal multiply-accumulates of a choice for each of the model's.

        Those dropped because their result is constant count, so F is above 1 only where something
        is computed more than once.  1.0 where the model has none."""
        return (choice.macs_executed + choice.macs_constant) / self.macs if self.macs else 1.0

    def slowdown(self, choice: Choice) -> float:
        """Cycles above those of the fastest choice, as a fraction of them."""
        return choice.cycles / max(1, self.fastest_cycles) - 1.0

    def as_json(self) -> dict[str, Json]:
        """The choices as frontier.json has them."""
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
            "frontier": [choice.as_json() for choice in self.choices],
            "frontier_streamed_input": (
                None if streamed is None else [choice.as_json() for choice in streamed]
            ),
        }

    def as_csv(self) -> str:
        """A line a choice, those with a streamed input last; cascades as layers x rows."""
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

    def _line(self, kind: str, chosen: int, choice: Choice) -> list[str | int]:
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
) -> Choice:
    """A placed schedule as a choice; `heights`: bytes of the arena and of other memories;
    `memories`: names of those whose traffic is shown."""
    arena, *others = heights
    cost = schedule.cost
    read, written = dict(cost.read_bytes), dict(cost.written_bytes)
    return Choice(
        sum(heights) + stack_bytes,
        arena,
        sum(others),
        schedule.peak_bytes,
        cost.cycles,
        cost.calls,
        cost.macs,
        cost.constant_macs,
        tuple(Moved(name, read.get(name, 0), written.get(name, 0)) for name in memories),
        striped(schedule),
    )
