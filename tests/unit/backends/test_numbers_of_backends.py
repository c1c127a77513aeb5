"""Numbers that functions of a backend return may be of any real type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock
from examples.uma import phases
from penstock.backends.author import breakdown_of
from penstock.backends.uma import backend as facade
from penstock.errors import BackendError
from penstock.reports.steps import layers
from penstock.uma import Breakdown, OpStrategy

Number = Callable[[int], Any]
"""A number of some type, equal to the argument."""


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facade, "REGISTERED", {})


def written(monkeypatch: pytest.MonkeyPatch, folder: Path, number: Number) -> dict[str, bytes]:
    """The files of a network on an engine whose cost, traffic and scratch are of a type."""

    def strategy(*facts: Any) -> OpStrategy:
        found = OpStrategy()
        found.add_implementation(
            phases.compute,
            name="rows.max",
            by_rows=True,
            cost=lambda o, rows: Breakdown(number(9 * rows), {"engine": number(rows)}, number(4)),
            traffic=lambda o, first, end: {"rows": integer(end - first)},
            scratch_bytes=lambda o: integer(16),
        )
        return found

    integer = number if isinstance(number(1), int | np.integer) else int
    monkeypatch.setattr(phases, "strategy", strategy)
    phases.Rows().register()
    done = penstock.compile(phases.network(), "host", accelerators=("rows",), optimize="size")
    done.write(folder)
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.suffix in {".c", ".json"}}


@pytest.mark.parametrize("number", [Fraction, np.int64, np.float64, np.float32])
def test_costs_of_any_real_type_are_those_of_equal_ints(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: Number
) -> None:
    expected = written(monkeypatch, tmp_path / "ints", int)
    found = written(monkeypatch, tmp_path / "others", number)
    assert "report.json" in found
    assert found["pools.c"] == expected["pools.c"]
    if number in (Fraction, np.int64):
        assert found == expected


def busy_cycles(monkeypatch: pytest.MonkeyPatch, cost: Any) -> Mapping[str, float]:
    """The busy cycles of the first layer, by resource."""
    monkeypatch.setattr(phases, "cycles", lambda offloaded, rows: cost)
    phases.Rows().register()
    done = penstock.compile(phases.network(), "host", accelerators=("rows",)).compilation
    breakdown = layers(done.schedule, done.program)[0].breakdown
    return breakdown.by_resource if breakdown else {}


def test_a_fraction_of_a_cycle_is_a_float_in_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    found = busy_cycles(monkeypatch, Breakdown(Fraction(7, 2), {"dma": Fraction(1, 4)}))
    assert {type(cycles) for cycles in found.values()} == {float}


@pytest.mark.parametrize("cost", [Decimal(7), np.array(7), np.bool_(True), np.complex64(1)])
def test_other_types_are_refused(monkeypatch: pytest.MonkeyPatch, cost: Any) -> None:
    for found in (cost, Breakdown(9, {"dma": cost}), Breakdown(cost)):
        with pytest.raises(BackendError, match="not a number") as caught:
            busy_cycles(monkeypatch, found)
        assert caught.value.code == "backend-009"
        assert "rows.max" in caught.value.where


def test_costs_with_addresses_are_checked_and_converted() -> None:
    found = breakdown_of(lambda: Breakdown(Fraction(6, 2), {"dma": np.int32(2)}), (), "c()", "npu")
    assert [type(n) for n in (found.cycles, found.by_resource["dma"])] == [int, int]
    with pytest.raises(BackendError, match='"dma" of c\\(\\) is None, not a number'):
        breakdown_of(lambda: Breakdown(3, {"dma": None}), (), "c()", "npu")  # type: ignore[dict-item]
