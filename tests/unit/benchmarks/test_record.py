"""Rows of a record are measured once, and printed in the order of the jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmarks import compiled_partition
from benchmarks.compiled_partition import Compared, Measured
from benchmarks.fused_tiles import DEFAULT, Found
from benchmarks.fused_tiles import parse as parse_found
from benchmarks.grouped_networks import CONFIGURATIONS, Job, selection
from benchmarks.record import Record
from benchmarks.tile_bounds import Bounds

ZOO = ("zoo:resnet8", "zoo:vgg16", "zoo:squeezenet")


@dataclass(frozen=True, slots=True)
class Row:
    """A measured row."""

    name: str
    attempt: int


def parse(row: Any) -> Row:
    """The row of a record."""
    return Row(**row)


def measuring(name: str, attempt: int, measured: list[str]) -> Callable[[], Row]:
    """A measurement that says so."""

    def measure() -> Row:
        measured.append(name)
        return Row(name, attempt)

    return measure


def jobs(attempt: int, measured: list[str]) -> Iterator[Job[Row]]:
    """Of all networks and configurations."""
    for model in ZOO:
        for config in CONFIGURATIONS:
            name = f"{model} {config}"
            yield Job(model, config, "case", measuring(name, attempt, measured))


def test_rows_are_measured_once(tmp_path: Path) -> None:
    file = tmp_path / "record.json"

    def run(attempt: int, *arguments: str) -> tuple[list[str], list[Row]]:
        measured: list[str] = []
        wanted = selection("benchmarks.some", "", [*arguments, "--record", str(file)])
        return measured, wanted.rows(jobs(attempt, measured), parse)

    later = Row("zoo:vgg16 large", 1)
    assert run(1, "--network", "zoo:vgg16", "--config", "large") == ([later.name], [later])
    first = [Row(f"zoo:resnet8 {config}", 2) for config in CONFIGURATIONS]
    names = [row.name for row in first]
    assert run(2, "--network", "zoo:resnet8") == (names, [*first, later])
    assert run(3, "--network", "zoo:resnet8") == ([], [*first, later])
    assert run(4, "--network", "zoo:vgg16", "--config", "large", "--again") == (
        [later.name],
        [*first, Row(later.name, 4)],
    )
    measured, rows = run(5)
    assert measured == ["zoo:squeezenet large"]
    assert [row.attempt for row in rows] == [2, 4, 5]


def test_interrupted_runs_keep_their_rows(tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    measured: list[str] = []

    def interrupted() -> Iterator[Job[Row]]:
        yield from list(jobs(1, measured))[:2]
        raise KeyboardInterrupt

    wanted = selection("benchmarks.some", "", ["--record", str(file)])
    with pytest.raises(KeyboardInterrupt):
        wanted.rows(interrupted(), parse)
    assert list(Record(file).rows(parse)) == ["zoo:resnet8, large, case", "zoo:vgg16, large, case"]


def test_rows_of_the_benchmarks_are_read_as_written(tmp_path: Path) -> None:
    record = Record(tmp_path / "record.json")
    measured = [
        Measured("layer", 7, 8, ("7 cycles, 6 expected",)),
        Measured("best", 5, 6, None, ()),
    ]
    compared = {"a": Compared("a", 1, 2, 3, 4, 5, tuple(measured))}
    record.write(compared)
    assert record.rows(compiled_partition.parse) == compared
    found = {"b": Found("b", DEFAULT, measured[0], 1, 2, 3, Bounds(4, 5), 6)}
    record.write(found)
    assert record.rows(parse_found) == found
