"""A rung that was not run has no number of mismatches, wherever it is shown."""

from __future__ import annotations

import json

import pytest

import penstock
from command_line import CommandLine
from examples.uma import phases
from penstock.backends.uma import backend as facade

WORDS = ("verify", "zoo:lenet5", "-t", "host", "--accelerator", "rows")


@pytest.fixture(autouse=True)
def without_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine whose driver has a header, and no stub in C."""
    monkeypatch.setattr(facade, "REGISTERED", {})
    backend = phases.Rows()
    backend._register_codegen(includes='#include "rows.h"', sources={"rows.h": phases.HEADER})
    backend.register()


def test_in_python() -> None:
    done = penstock.verify(phases.network(), "host", accelerators=("rows",))
    assert [(rung.step, rung.mismatches) for rung in done.rungs] == [("machine", 0), ("host", None)]
    assert done.rungs[1].comparison is None
    assert done.rungs[1].note == "not run: rows has no model of its driver in C"
    assert [rung.mismatches for rung in done.report.verified] == [0, None]
    assert "host: not run: rows has no model of its driver in C;" in repr(done)
    assert done.passed
    assert done.mismatch() is None
    assert "not run: rows has no model of its driver in C" in done._repr_html_()


def test_it_cannot_be_loaded() -> None:
    with pytest.raises(penstock.UnsupportedError, match="rows has no model of its driver in C"):
        penstock.load(phases.network(), accelerators=("rows",))


def test_on_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = CommandLine(monkeypatch, capsys)
    lines = command(*WORDS).out.splitlines()
    (line,) = (line for line in lines if line.split()[:1] == ["host"])
    assert line.split()[:4] == ["host", "–", "–", "–"]
    assert "not run: rows has no model" in line
    found = json.loads(command(*WORDS, "--json").out)["verified"]
    assert [rung["mismatches"] for rung in found] == [0, None]
