"""Recorded report: the figures of a report.json, of a profile.json or of the output of `--json`,
read back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import UsageError
from penstock.reports.json_value import Json
from penstock.reports.report import SCHEMA

FILES = ("report.json", "profile.json")
"""What an output directory contains, by preference."""
_HELP = "name a report.json, a file with the output of --json, or a directory that contains one"


@dataclass(frozen=True, slots=True)
class RecordedLayer:
    """The figures of a layer or step, summed over all rows of the report that have its name."""

    name: str
    kernels: tuple[str, ...]
    calls: int
    macs: int
    cycles: int
    simulated_cycles: int | None


@dataclass(frozen=True, slots=True)
class RecordedReport:
    """A report as a file records it.

    figures: counts by path of keys, such as `ram_bytes.total`; None if not measured.
    facts: texts by key that describe request and schedule; None if not stated.
    steps: by tensor name, summed over those that have the same; empty if the file lists none.
    model_layers: operators of the model by name; empty in files of older versions.
    outputs: the outputs that `run --json` records, or None."""

    path: str
    figures: Mapping[str, int | None]
    facts: Mapping[str, str | None]
    steps: Mapping[str, RecordedLayer]
    model_layers: Mapping[str, RecordedLayer]
    outputs: Json = None


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
"""Paths of the counts that are compared."""


REQUEST_FACTS = ("model", "target", "goal", "command")
"""The keys of the facts that state what was requested."""


def read_report(name: str) -> RecordedReport:
    """Read a file, or the report in an output directory.  Raises UsageError."""
    path = _file(Path(name))
    try:
        found: Json = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(
            "usage-141",
            "the report cannot be read",
            where=name,
            why=str(error.strerror or error).lower(),
            help=_HELP,
        ) from None
    except UnicodeDecodeError:
        raise _no_report(name, "the file is not JSON") from None
    except ValueError as error:
        raise _no_report(name, f"the file is not JSON: {error}") from None
    return recorded_report(name, found)


def recorded_report(name: str, found: Json) -> RecordedReport:
    """Return the figures of a report; `name` says where it is from.  Raises UsageError."""
    if not isinstance(found, Mapping) or "schema" not in found:
        raise _no_report(name, 'the JSON value has no key "schema"')
    if found["schema"] != SCHEMA:
        raise _no_report(name, f"its schema is {found['schema']!r}, must be {SCHEMA!r}")
    return _recorded(name, found)


def _file(path: Path) -> Path:
    """The path itself, or the report in a directory."""
    if not path.is_dir():
        return path
    inside = next((path / file for file in FILES if (path / file).is_file()), None)
    if inside is None:
        raise _no_report(str(path), f"the directory contains neither {' nor '.join(FILES)}")
    return inside


def _no_report(where: str, why: str) -> UsageError:
    return UsageError("usage-142", "this is not a report", where=where, why=why, help=_HELP)


def _recorded(name: str, report: Mapping[str, Json]) -> RecordedReport:
    return RecordedReport(
        name,
        {path: _count(name, report, path) for path in FIGURES},
        {
            **{key: _stated(report, key) for key in ("model", "target", "version", "commit")},
            "command": _stated(report, "command"),
            "goal": _stated(report, "optimize"),
            "cascades": _cascades(name, report.get("cascades")),
        },
        _layers(name, report, "layers"),
        _layers(name, report, "model_layers"),
        report.get("outputs"),
    )


def _stated(report: Mapping[str, Json], key: str) -> str | None:
    """The text of a key; None if the report does not state it, as older versions do not."""
    value = report.get(key)
    return None if value is None or value == "" else str(value)


def _count(name: str, record: Mapping[str, Json], path: str) -> int | None:
    """The count at a path of keys, or None.  Raises UsageError if the value is no count."""
    value: Json = record
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise _no_report(name, f'"{path}" is {value!r}, must be an integer')


def _cascades(name: str, cascades: Json) -> str:
    """Cascades as layers × rows, and their kernel calls."""
    words: list[str] = []
    for record in _records(name, cascades, "cascades"):
        counts = {key: _count(name, record, key) for key in ("layers", "rows", "calls")}
        for key, count in counts.items():
            if count is None:
                raise _no_report(name, f'"cascades.{key}" is missing')
        words.append("{layers}×{rows} ({calls} calls)".format_map(counts))
    return " ".join(words)


def _records(name: str, value: Json, key: str) -> Iterator[Mapping[str, Json]]:
    """The objects of a list; none if the value is absent.  Raises UsageError."""
    for record in value if isinstance(value, Sequence) else ():
        if not isinstance(record, Mapping):
            raise _no_report(name, f'"{key}" contains {record!r}, must be objects')
        yield record


def _layers(name: str, report: Mapping[str, Json], key: str) -> dict[str, RecordedLayer]:
    found: dict[str, RecordedLayer] = {}
    for row in _records(name, report.get(key), key):
        kernels = row.get("kernels", (row.get("kernel", ""),))
        layer = RecordedLayer(
            str(row.get("name", "")),
            tuple(map(str, kernels)) if isinstance(kernels, Sequence) else (),
            _count(name, row, "calls") or 0,
            _count(name, row, "macs") or 0,
            _count(name, row, "cycles") or 0,
            _count(name, row, "simulated_cycles"),
        )
        before = found.get(layer.name)
        found[layer.name] = layer if before is None else _sum(before, layer)
    return found


def _sum(one: RecordedLayer, other: RecordedLayer) -> RecordedLayer:
    """The figures of two rows of a layer, such as those of two intervals of bands."""
    simulated = (one.simulated_cycles, other.simulated_cycles)
    known = [cycles for cycles in simulated if cycles is not None]
    return RecordedLayer(
        one.name,
        tuple(dict.fromkeys((*one.kernels, *other.kernels))),
        one.calls + other.calls,
        one.macs + other.macs,
        one.cycles + other.cycles,
        sum(known) if len(known) == len(simulated) else None,
    )
