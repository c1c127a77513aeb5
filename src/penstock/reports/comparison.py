"""Comparison of two reports: the figures that differ, and those that are worse.

Reports are compared as JSON, because older versions of penstock state less than `Report` contains.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from penstock.brief import Brief
from penstock.frozen import frozen
from penstock.reports.codec import Json
from penstock.reports.report import no_report

# Paths of the counts that are compared.
FIGURES = (
    "ram_bytes.total",
    "ram_bytes.arena",
    "ram_bytes.static",
    "ram_bytes.stack",
    "stack_bytes_measured",
    "ram_bytes_streamed_input",
    "flash_bytes.total",
    "flash_bytes.weights",
    "flash_bytes.code",
    "macs.executed",
    "cycles.estimated",
    "cycles.simulated",
    "instructions.simulated",
)
# What describes the model, the request and the schedule.
FACTS = ("model", "target", "version", "commit", "command", "goal", "cascades")
# The keys of the facts that state what was requested.
REQUEST_FACTS = ("model", "target", "goal", "command")


@frozen
class LayerFigures:
    """The figures of a layer or step that are compared, summed over all rows of its name."""

    name: str
    kernels: tuple[str, ...]
    calls: int
    macs: int
    cycles: int
    simulated_cycles: int | None


@frozen
class StatedReport:
    """A report as JSON. One of an older version may state less than `Report` contains.

    name: where it is from."""

    name: str
    json: Mapping[str, Json]

    def fact(self, key: str) -> str | None:
        """Return a text that describes request or schedule; None if it is not stated."""
        if key == "cascades":
            return self._cascades()
        value = self.json.get("optimize" if key == "goal" else key)
        return None if value is None or value == "" else str(value)

    def count(self, path: str, record: Mapping[str, Json] | None = None) -> int | None:
        """Return the count at a path of keys, such as `ram_bytes.total`; None if it is not stated.

        Raises UsageError if the value is no count."""
        value: Json = self.json if record is None else record
        for key in path.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        raise no_report(self.name, f'"{path}" is {value!r}, must be an integer')

    def layers(self, key: str) -> Mapping[str, LayerFigures]:
        """Return the records of a list of layers by name, those of the same name summed; none if
        the list is absent.  Raises UsageError."""
        found: dict[str, LayerFigures] = {}
        for row in self._records(key):
            kernels = row.get("kernels", (row.get("kernel", ""),))
            layer = LayerFigures(
                str(row.get("name", "")),
                tuple(map(str, kernels)) if isinstance(kernels, Sequence) else (),
                self.count("calls", row) or 0,
                self.count("macs", row) or 0,
                self.count("cycles", row) or 0,
                self.count("simulated_cycles", row),
            )
            before = found.get(layer.name)
            found[layer.name] = layer if before is None else _sum(before, layer)
        return found

    def _cascades(self) -> str:
        words: list[str] = []
        for record in self._records("cascades"):
            counts = {key: self.count(key, record) for key in ("layers", "rows", "calls")}
            for key, count in counts.items():
                if count is None:
                    raise no_report(self.name, f'"cascades.{key}" is missing')
            words.append("{layers}×{rows} ({calls} calls)".format_map(counts))
        return " ".join(words)

    def _records(self, key: str) -> Iterator[Mapping[str, Json]]:
        """The objects of a list; none if it is absent.  Raises UsageError."""
        value = self.json.get(key)
        for record in value if isinstance(value, Sequence) else ():
            if not isinstance(record, Mapping):
                raise no_report(self.name, f'"{key}" contains {record!r}, must be objects')
            yield record


# The figure that includes the size of the code, if a report states it.
_FLASH = "flash_bytes.total"


@frozen
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


@frozen
class LayerChange:
    """A layer that differs, or that only one of the reports lists."""

    name: str
    before: LayerFigures | None
    after: LayerFigures | None

    @property
    def cycles(self) -> FigureChange:
        """Simulated cycles if both reports state them, or else estimates."""
        both = self.before, self.after
        simulated = all(one is None or one.simulated_cycles is not None for one in both)
        before, after = (
            one and (one.simulated_cycles if simulated else one.cycles) for one in both
        )
        return FigureChange("cycles", before, after)


@frozen(repr=False)
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


def compare(before: StatedReport, after: StatedReport) -> ReportComparison:
    """Compare two reports.  Raises UsageError if one is malformed."""
    outputs = before.json.get("outputs"), after.json.get("outputs")
    facts = {key: (before.fact(key), after.fact(key)) for key in FACTS}
    return ReportComparison(
        before.name,
        after.name,
        tuple(
            FigureChange(
                name, before.count(name), after.count(name), _comparable(name, before, after)
            )
            for name in FIGURES
        ),
        {key: pair for key, pair in facts.items() if pair[0] != pair[1]},
        _layer_changes(before, after),
        None if None in outputs else outputs[0] == outputs[1],
    )


def _comparable(name: str, before: StatedReport, after: StatedReport) -> bool:
    """Whether both values of a figure include the same parts of the program."""
    code = (one.count("flash_bytes.code") for one in (before, after))
    return name != _FLASH or len({size is None for size in code}) == 1


def _layer_changes(before: StatedReport, after: StatedReport) -> tuple[LayerChange, ...] | None:
    """The layers that differ, in the order of the first report, then those of the second only; None
    unless both reports list layers."""
    # Layers are operators of the model if both reports list these: the steps that compute an
    # operator depend on the schedule.
    pairs = ((before.layers(key), after.layers(key)) for key in ("model_layers", "layers"))
    first, second = next((pair for pair in pairs if all(pair)), ({}, {}))
    if not first:
        return None
    found = ((name, first.get(name), second.get(name)) for name in dict.fromkeys((*first, *second)))
    return tuple(LayerChange(*one) for one in found if _differ(*one[1:]))


def _differ(one: LayerFigures | None, other: LayerFigures | None) -> bool:
    """Whether layers differ; simulated cycles count only if both were simulated."""
    if one is None or other is None:
        return True
    if None in (one.simulated_cycles, other.simulated_cycles):
        one, other = replace(one, simulated_cycles=None), replace(other, simulated_cycles=None)
    return one != other


def _sum(one: LayerFigures, other: LayerFigures) -> LayerFigures:
    simulated = (one.simulated_cycles, other.simulated_cycles)
    known = [cycles for cycles in simulated if cycles is not None]
    return LayerFigures(
        one.name,
        tuple(dict.fromkeys((*one.kernels, *other.kernels))),
        one.calls + other.calls,
        one.macs + other.macs,
        one.cycles + other.cycles,
        sum(known) if len(known) == len(simulated) else None,
    )
