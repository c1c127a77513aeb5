"""Row: a layer or one of its steps with its measurements, for tables of layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol

from penstock.reports.formats import ABSENT, extents, number, printable
from penstock.reports.layer_report import LayerReport
from penstock.reports.model_layer import ModelLayer
from penstock.scheduling.model.row_stripes import count_stripes

FLOOR_CYCLES_PER_MAC = {
    "conv2d_s8_dsp": 68 / 64,
    "conv2d_direct_s8_dsp": 155 / 128,
    "conv2d_groups_s8_dsp": 155 / 128,
    "depthwise_conv2d_s8_dsp": 2.5,
    "fully_connected_forms_s8_dsp": 25 / 16,
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
class MeasuredSum:
    """The sum of the counters of several steps."""

    cycles: int
    instructions: int


@dataclass(frozen=True, slots=True)
class LayerRow:
    """One line of a table of layers.

    `measured` is None for layers that were not simulated, such as those of an accelerator; `share`
    is the layer's fraction of all cycles, in [0, 1]. `steps` are the rows of its steps if it has
    several."""

    layer: ModelLayer | LayerReport
    measured: Measured | None
    share: float
    steps: tuple[LayerRow, ...] = ()

    @property
    def main(self) -> LayerReport:
        """The step itself, or the main one of a layer."""
        return self.layer.main if isinstance(self.layer, ModelLayer) else self.layer

    @property
    def numbers(self) -> str:
        """Number of the step in the program, or those of the first and the last step."""
        layer = self.layer
        numbers = layer.numbers if isinstance(layer, ModelLayer) else (layer.step,)
        known = sorted(number for number in numbers if number is not None)
        if not known:
            return ABSENT
        return f"{known[0]}" if len(known) == 1 else f"{known[0]}..{known[-1]}"

    @property
    def full_name(self) -> str:
        return printable(self.layer.name)

    @property
    def weight_bytes(self) -> int | None:
        """Bytes of constants that are stored for a layer; None for one of its steps."""
        return self.layer.weight_bytes if isinstance(self.layer, ModelLayer) else None

    @property
    def live_bytes(self) -> int | None:
        """Maximum of the live bytes while a layer runs, if known; None for one of its steps."""
        return self.layer.live_bytes if isinstance(self.layer, ModelLayer) else None

    @property
    def stripes(self) -> str:
        """Number of stripes and shape of the largest one; absent if the layer runs whole."""
        main = self.main
        if main.calls == 1 or not main.stripes:
            return ABSENT
        largest = max((config.shape for config in main.stripes), key=prod)
        return f"{number(count_stripes(main.stripes))} of {extents(largest)}"

    @property
    def short_bands(self) -> str:
        """Number of the chain; for a step, with those of the bands. Absent without bands."""
        bands = self.main.bands
        if bands is None:
            return ABSENT
        return bands.short if self.layer is self.main else bands.short_total

    @property
    def classes(self) -> str:
        """Number of output channels in each requantisation class."""
        found = self.main.requantisation
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
        floor = FLOOR_CYCLES_PER_MAC.get(self.main.kernel, 0.0) * self.layer.macs
        return self.cycles / floor if floor and not self.main.offloaded else None

    @property
    def cycles(self) -> int:
        """Simulated cycles of each step that was simulated, else its estimate."""
        if self.steps:
            return sum(row.cycles for row in self.steps)
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
    return any(row.main.bands for row in lines)


def rows(
    layers: Sequence[ModelLayer], measured: Sequence[Measured | None] | None
) -> tuple[LayerRow, ...]:
    """Rows of a table, in order of `layers`.

    `measured`: one record per step, in order of steps; None without a simulation.  Layers that are
    not a step have no measurements."""
    numbered = sorted(number for layer in layers for number in layer.numbers)
    found = dict(zip(numbered, measured, strict=True)) if measured else {}

    def cycles(step: LayerReport) -> int:
        counts = None if step.step is None else found.get(step.step)
        return counts.cycles if counts else step.cycles

    total = max(1, sum(cycles(step) for layer in layers for step in layer.steps))

    def row(layer: ModelLayer) -> LayerRow:
        steps = tuple(
            LayerRow(
                step, None if step.step is None else found.get(step.step), cycles(step) / total
            )
            for step in layer.steps
        )
        known = [step.measured for step in steps if step.measured is not None]
        measured = known[0] if len(known) == 1 else _sum(known)
        share = sum(map(cycles, layer.steps)) / total
        return LayerRow(layer, measured, share, steps if len(steps) > 1 else ())

    return tuple(map(row, layers))


def _sum(counts: Sequence[Measured]) -> Measured | None:
    if not counts:
        return None
    return MeasuredSum(sum(c.cycles for c in counts), sum(c.instructions for c in counts))
