"""Comparison of two reports: the figures that differ, and those that are worse."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.brief import Brief
from penstock.reports.json_value import Json
from penstock.reports.report_file import FIGURES, REQUEST_FACTS, RecordedLayer, RecordedReport

_FLASH = "flash_bytes.total"
"""The figure that includes the size of the code, if a report states it."""


@dataclass(frozen=True, slots=True)
class FigureChange:
    """A figure of both reports; None where a report does not state it.

    comparable: False if only one of the two values includes the size of the code."""

    name: str
    before: int | None
    after: int | None
    comparable: bool = True

    @property
    def differs(self) -> bool:
        return self.before != self.after

    @property
    def is_larger(self) -> bool:
        """Whether the values are comparable, and the second one is larger."""
        if self.before is None or self.after is None:
            return False
        return self.comparable and self.after > self.before


@dataclass(frozen=True, slots=True)
class LayerChange:
    """A layer that differs, or that only one of the reports lists."""

    name: str
    before: RecordedLayer | None
    after: RecordedLayer | None

    @property
    def cycles(self) -> FigureChange:
        """Simulated cycles if both reports state them, or else estimates."""
        both = self.before, self.after
        simulated = all(one is None or one.simulated_cycles is not None for one in both)
        before, after = (
            one and (one.simulated_cycles if simulated else one.cycles) for one in both
        )
        return FigureChange("cycles", before, after)


@dataclass(frozen=True, slots=True, repr=False)
class ReportComparison(Brief):
    """Two reports side by side.

    facts: what describes the model, the request and the schedule, where it differs: before, after;
        None where a report does not state it, as older ones may not.
    layers: the layers that differ; None unless both reports list layers.
    same_outputs: None unless both reports record outputs."""

    before: str
    after: str
    figures: tuple[FigureChange, ...]
    facts: Mapping[str, tuple[str | None, str | None]]
    layers: tuple[LayerChange, ...] | None
    same_outputs: bool | None

    @property
    def requests(self) -> Mapping[str, tuple[str | None, str | None]]:
        """The facts that state what was requested, if both reports state them: if some differ, so
        may all figures."""
        return {
            key: pair
            for key, pair in self.facts.items()
            if key in REQUEST_FACTS and None not in pair
        }

    @property
    def worse(self) -> tuple[str, ...]:
        """The names of the totals that grew, and `outputs` if these differ.

        Totals that include other parts of the program are not comparable: the size of the code and
        simulated cycles only count if both reports state them."""
        by_name = {figure.name: figure for figure in self.figures}
        flash, simulated = by_name[_FLASH], by_name["cycles.simulated"]
        totals = (
            "ram_bytes.total",
            _FLASH if flash.comparable else "flash_bytes.weights",
            "cycles.estimated" if None in (simulated.before, simulated.after) else simulated.name,
        )
        larger = tuple(name for name in totals if by_name[name].is_larger)
        return (*larger, "outputs") if self.same_outputs is False else larger

    def as_json(self) -> dict[str, Json]:
        """The comparison as `penstock compare --json` prints it."""
        return {
            "before": self.before,
            "after": self.after,
            "figures": {
                one.name: {"before": one.before, "after": one.after} for one in self.figures
            },
            "facts": {
                key: {"before": before, "after": after}
                for key, (before, after) in self.facts.items()
            },
            "layers": None
            if self.layers is None
            else [dataclasses.asdict(layer) for layer in self.layers],
            "same_outputs": self.same_outputs,
            "worse": self.worse,
        }


def compare(before: RecordedReport, after: RecordedReport) -> ReportComparison:
    """Compare two reports."""
    recorded = before.outputs is not None and after.outputs is not None
    pairs = ((name, (before.figures[name], after.figures[name])) for name in FIGURES)
    return ReportComparison(
        before.path,
        after.path,
        tuple(FigureChange(name, *pair, _comparable(name, before, after)) for name, pair in pairs),
        {
            key: (text, after.facts[key])
            for key, text in before.facts.items()
            if text != after.facts[key]
        },
        _layer_changes(before, after),
        before.outputs == after.outputs if recorded else None,
    )


def _comparable(name: str, before: RecordedReport, after: RecordedReport) -> bool:
    """Whether both values of a figure include the same parts of the program."""
    code = (one.figures["flash_bytes.code"] for one in (before, after))
    return name != _FLASH or len({size is None for size in code}) == 1


def _layer_changes(before: RecordedReport, after: RecordedReport) -> tuple[LayerChange, ...] | None:
    """The layers that differ, in the order of the first report, then those of the second only; None
    unless both reports list layers.

    Layers are operators of the model if both reports list these: the steps that compute an operator
    depend on the schedule."""
    lists = ((before.model_layers, after.model_layers), (before.steps, after.steps))
    first, second = next((pair for pair in lists if all(pair)), ({}, {}))
    if not first:
        return None
    pairs = ((name, first.get(name), second.get(name)) for name in dict.fromkeys((*first, *second)))
    return tuple(LayerChange(*found) for found in pairs if _differ(*found[1:]))


def _differ(one: RecordedLayer | None, other: RecordedLayer | None) -> bool:
    """Whether layers differ; simulated cycles count only if both were simulated."""
    if one is None or other is None:
        return True
    if None in (one.simulated_cycles, other.simulated_cycles):
        one, other = replace(one, simulated_cycles=None), replace(other, simulated_cycles=None)
    return one != other
