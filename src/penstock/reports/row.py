"""Row: a layer with what was measured of it, ready to be shown in a table of layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.reports.formats import ABSENT, first_name, printable
from penstock.reports.report import Layer

FLOORS = {"Conv2D": 1.25, "DepthwiseConv2D": 2.5, "FullyConnected": 1.44}
"""Cycles per multiply-accumulate that a core with DSP extension takes for loads, widening and
products alone: of a tile of two by two; of four channels at a time; of four outputs at a time."""


class Measured(Protocol):
    """What a simulated core counted for one step."""

    @property
    def cycles(self) -> int: ...

    @property
    def instructions(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table of layers; `share` is its part of all cycles, in [0, 1].

    Nothing is measured of a layer that an accelerator runs."""

    layer: Layer
    measured: Measured | None
    share: float

    @property
    def name(self) -> str:
        return first_name(self.layer.name)

    @property
    def full_name(self) -> str:
        return printable(self.layer.name)

    @property
    def cascade(self) -> str:
        """In which cascade the layer runs, and how many rows at a time."""
        if self.layer.cascade is None:
            return ABSENT
        return f"{self.layer.cascade}: {self.layer.rows} row{'s' * (self.layer.rows != 1)}"

    @property
    def classes(self) -> str:
        """Output channels by class of requantisation."""
        found = self.layer.requantisation
        return ", ".join(f"{letter} {count}" for letter, count in found.items()) or ABSENT

    @property
    def simulated_cycles(self) -> int | None:
        return self.measured.cycles if self.measured else None

    @property
    def instructions(self) -> int | None:
        return self.measured.instructions if self.measured else None

    @property
    def above_floor(self) -> float | None:
        """Cycles in units of the operator's floor; None where it has none, or on accelerators."""
        if self.layer.offloaded:
            return None
        floor = FLOORS.get(self.layer.kind, 0.0) * self.layer.macs
        return self.cycles / floor if floor else None

    @property
    def cycles(self) -> int:
        """Simulated cycles where there are any, else the estimate."""
        return self.measured.cycles if self.measured else self.layer.cycles


def has_limits(lines: Sequence[Row]) -> bool:
    """Whether an accelerator's author says what limits any of the layers."""
    return any(row.layer.limit for row in lines)


def rows(layers: Sequence[Layer], measured: Sequence[Measured | None] | None) -> tuple[Row, ...]:
    """The layers, in their order, with what was measured of their steps, in the steps' order, or
    with nothing; nothing is measured of layers that are no step."""
    numbered = sorted(layer.step for layer in layers if layer.step is not None)
    found = dict(zip(numbered, measured, strict=True)) if measured else {}
    pairs = [(layer, None if layer.step is None else found.get(layer.step)) for layer in layers]
    cycles = [m.cycles if m else layer.cycles for layer, m in pairs]
    total = max(1, sum(cycles))
    return tuple(Row(*pair, count / total) for pair, count in zip(pairs, cycles, strict=True))
