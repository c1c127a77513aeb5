"""Cycles that driver functions state appear beside the estimate of the cost functions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import penstock
from examples.uma import phases
from penstock.backends.uma import backend as facade
from penstock.errors import BackendError


def verified(monkeypatch: pytest.MonkeyPatch, cycles: Any) -> penstock.Verified:
    """Two poolings of 8 and 4 rows, on an engine whose row takes `cycles(.., w, c)`."""
    monkeypatch.setattr(facade, "REGISTERED", {})
    monkeypatch.setattr(phases, "MAX", replace(phases.MAX, cycles=cycles))
    phases.Rows().register()
    return penstock.verify(
        phases.network(), "host", accelerators=("rows",), optimize="speed", last_rung="machine"
    )


def test_the_machine_adds_up_the_cycles_of_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: 8 rows of 8 pixels and 4 rows of 4 pixels, of 4 channels; costs are 10 + rows * w,
    once for each layer."""
    done = verified(monkeypatch, lambda device, upper, lower, y, w, c: np.int64(w * c))
    (rung,) = done.rungs
    stated, estimated = (8 * 8 + 4 * 4) * 4, (10 + 8 * 8) + (10 + 4 * 4)
    assert rung.note == (
        f"rows: {stated} cycles by its driver functions, {estimated} by its cost functions"
    )
    assert done.report.verified[0].note == rung.note


def test_without_stated_cycles_there_is_no_note(monkeypatch: pytest.MonkeyPatch) -> None:
    (rung,) = verified(monkeypatch, None).rungs
    assert rung.note == ""


@pytest.mark.parametrize(
    ("cycles", "why"),
    [
        (lambda *given: None, "it returned None"),
        (lambda *given: -1, "it returned -1"),
        (lambda *given: float("nan"), "it returned nan"),
        (lambda device, *given: 1 // len(device), "ZeroDivisionError: "),
    ],
)
def test_cycles_that_are_no_number_are_refused(
    monkeypatch: pytest.MonkeyPatch, cycles: Any, why: str
) -> None:
    with pytest.raises(BackendError, match="the cycles of rows_max are unknown") as caught:
        verified(monkeypatch, cycles)
    assert caught.value.code == "backend-095"
    assert caught.value.why.startswith(why)


def test_cycles_see_the_device_after_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first row takes 100 cycles, and the later ones 1."""

    def count(device: dict[str, int], *given: object) -> None:
        device["rows"] = device.get("rows", 0) + 1
        model(device, *given)

    model = phases.MAX.model
    monkeypatch.setattr(phases, "MAX", replace(phases.MAX, model=count))
    done = verified(monkeypatch, lambda device, *given: 100 if device["rows"] == 1 else 1)
    assert done.rungs[0].note.startswith("rows: 111 cycles by its driver functions")


@pytest.mark.parametrize("role", ["model", "cycles"])
def test_functions_that_take_no_device_are_refused_when_they_are_compiled(
    monkeypatch: pytest.MonkeyPatch, role: str
) -> None:
    monkeypatch.setattr(facade, "REGISTERED", {})
    monkeypatch.setattr(phases, "MAX", replace(phases.MAX, **{role: lambda y, w, c: None}))
    phases.Rows().register()
    with pytest.raises(BackendError) as caught:
        penstock.compile(phases.network(), "host", accelerators=("rows",))
    assert caught.value.code == "backend-043"
    assert caught.value.why == (
        f"the {role} of rows_max must take the state of the device and 5 arguments"
    )
