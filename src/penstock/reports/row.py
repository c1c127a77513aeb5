"""Row: one layer of a report with its measurements, for tables of layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol

from penstock.reports.formats import ABSENT, extents, first_name, number, printable
from penstock.reports.layer_report import LayerReport
from penstock.scheduling.model.row_stripes import count_stripes

FLOOR_CYCLES_PER_MAC = {
    "conv2d_s8_dsp": 68 / 64,
    "conv2d_direct_s8_dsp": 155 / 128,
    "conv2d_groups_s8_dsp": 155 / 128,
    "depthwise_conv2d_s8_dsp": 2.5,
    "depthwise_multiple_s8_dsp": 2.5,
    "fully_connected_s8_dsp": 87 / 64,
}
"""Cycles per multiply-accumulate in the inner loop of a kernel: loads, widening and multiplication
alone, by the kernel's name.  `backends/cores/dsp/counts.py` counts them: 68 cycles for two pixels,
four channels and eight inputs, for example."""


class Measured(Protocol):
    """Counters of a simulated core for one step."""

    @property
    def cycles(self) -> int: ...

    @property
    def instructions(self) -> int: ...


@dataclass(frozen=True, slots=True)
class LayerRow:
    """One line of a table of layers.

    `measured` is None for layers that were not simulated, such as those of an accelerator; `share`
    is the layer's fraction of all cycles, in [0, 1]."""

    layer: LayerReport
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
        """Number of the cascade that runs the layer, and rows per stripe."""
        if self.layer.cascade is None:
            return ABSENT
        return f"{self.layer.cascade}: {self.layer.rows} row{'s' * (self.layer.rows != 1)}"

    @property
    def stripes(self) -> str:
        """Number of stripes and shape of the largest one; absent if the layer runs whole."""
        configs = self.layer.stripes
        if self.layer.calls == 1 or not configs:
            return ABSENT
        largest = max((config.shape for config in configs), key=prod)
        return f"{number(count_stripes(configs))} of {extents(largest)}"

    @property
    def bands(self) -> str:
        """Chain and bands that compute the layer; absent if it computes all columns at once."""
        return self.layer.bands.words if self.layer.bands else ABSENT

    @property
    def short_bands(self) -> str:
        """As `bands`, for narrow columns."""
        return self.layer.bands.short if self.layer.bands else ABSENT

    @property
    def classes(self) -> str:
        """Number of output channels in each requantisation class."""
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
        """Cycles relative to those of the kernel's inner loop alone; None if these are unknown."""
        floor = FLOOR_CYCLES_PER_MAC.get(self.layer.kernel, 0.0) * self.layer.macs
        return self.cycles / floor if floor and not self.layer.offloaded else None

    @property
    def cycles(self) -> int:
        """Simulated cycles if the layer was simulated, else the estimate."""
        return self.measured.cycles if self.measured else self.layer.cycles


def has_limits(lines: Sequence[LayerRow]) -> bool:
    """Whether any layer states the resource that limits it, as accelerators may."""
    return any(row.layer.limit for row in lines)


def has_floors(lines: Sequence[LayerRow]) -> bool:
    """Whether the cycles of the inner loop of any layer are known."""
    return any(row.above_floor is not None for row in lines)


def has_stripes(lines: Sequence[LayerRow]) -> bool:
    """Whether any layer is computed in several stripes."""
    return any(row.stripes != ABSENT for row in lines)


def has_bands(lines: Sequence[LayerRow]) -> bool:
    """Whether any layer runs in a chain or in bands of columns."""
    return any(row.layer.bands for row in lines)


def rows(
    layers: Sequence[LayerReport], measured: Sequence[Measured | None] | None
) -> tuple[LayerRow, ...]:
    """Rows of a table, in order of `layers`.

    `measured`: one record per step, in order of steps; None without a simulation.  Layers that are
    not a step have no measurements."""
    numbered = sorted(layer.step for layer in layers if layer.step is not None)
    found = dict(zip(numbered, measured, strict=True)) if measured else {}
    pairs = [(layer, None if layer.step is None else found.get(layer.step)) for layer in layers]
    cycles = [m.cycles if m else layer.cycles for layer, m in pairs]
    total = max(1, sum(cycles))
    return tuple(LayerRow(*pair, count / total) for pair, count in zip(pairs, cycles, strict=True))
