"""Row: a layer with what was measured of it, ready to be shown in a table of layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.reports.formats import first_name, printable
from penstock.reports.report import Layer


class Measured(Protocol):
    """What a simulated core counted for one step."""

    @property
    def cycles(self) -> int: ...

    @property
    def instructions(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table of layers; `share` is its part of all cycles, in [0, 1]."""

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
    def simulated_cycles(self) -> int | None:
        return self.measured.cycles if self.measured else None

    @property
    def instructions(self) -> int | None:
        return self.measured.instructions if self.measured else None

    @property
    def cycles(self) -> int:
        """Simulated cycles where there are any, else the estimate."""
        return self.measured.cycles if self.measured else self.layer.cycles


def rows(layers: Sequence[Layer], measured: Sequence[Measured] | None) -> tuple[Row, ...]:
    """The layers with what was measured of each, in the same order, or with nothing."""
    found = tuple(measured) if measured else (None,) * len(layers)
    pairs = tuple(zip(layers, found, strict=True))
    cycles = [m.cycles if m else layer.cycles for layer, m in pairs]
    total = max(1, sum(cycles))
    return tuple(Row(*pair, count / total) for pair, count in zip(pairs, cycles, strict=True))
