"""Errors of the reference machine state the point of the frontier, and how to run it alone."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

import penstock
from command_line import CommandLine
from examples.uma import phases
from penstock.backends.uma import backend as facade
from penstock.errors import BackendError
from penstock.uma import Command, Graph, KernelCall, Loop, Var, minimum


@pytest.fixture(autouse=True)
def straying(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that computes one row too many in stripes, and is right in whole layers."""

    def compute(call: KernelCall) -> Sequence[Command]:
        _, height, w, c = call.output.shape
        r, x = Var("r"), call.operand(0)
        command = call.invoke(phases.MAX, x.row(r * 2), x.row(r * 2 + 1), call.result.row(r), w, c)
        end = minimum(call.end + int(call.rows < height), height)
        return [Loop("r", call.first, end, 1, (command,))]

    monkeypatch.setattr(facade, "REGISTERED", {})
    monkeypatch.setattr(phases, "compute", compute)
    phases.Rows().register()


def network() -> Graph:
    net = penstock.GraphBuilder("pools")
    return net.build(net.max_pool2d(net.max_pool2d(net.input((1, 28, 28, 4)), 2), 2))


def without_address(error: BackendError) -> dict[str, str]:
    return {**error.parts(), "what": error.what.rpartition(", at ")[0]}


def test_an_error_names_the_point_and_the_settings_that_reproduce_it() -> None:
    plain = penstock.verify(network(), "host", accelerators=("rows",), last_rung="machine")
    assert plain.passed, "the selected point has no stripes"
    with pytest.raises(BackendError) as caught:
        penstock.verify(
            network(), "host", accelerators=("rows",), last_rung="machine", every_point=True
        )
    error = caught.value
    (point,) = re.findall(r"^pools, the point of (\d+) bytes, rows, rows.max", error.where)
    (budget,) = re.findall(
        r'; to run this point only, .* with sram=(\d+), optimize="speed", last_rung="machine"$',
        error.help,
    )
    with pytest.raises(BackendError) as again:
        penstock.verify(
            network(), "host", accelerators=("rows",), last_rung="machine",
            sram=int(budget), optimize="speed",
        )  # fmt: skip
    # With a budget, rows are laid evenly, so that they have other addresses.
    assert without_address(again.value) == without_address(error)
    assert error.code == "machine-010"
    assert int(budget) > int(point), "the budget includes the stack"


def test_on_the_command_line_the_settings_are_options(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = CommandLine(monkeypatch, capsys)
    words = (
        "verify",
        "zoo:lenet5",
        "-t",
        "host",
        "--accelerator",
        "rows",
        "--last-rung",
        "machine",
    )
    said = command(*words, "--every-point")
    assert "error[machine-010]: rows writes beyond rows" in said.err
    (options,) = re.findall(r"repeat the verification with (.*)\n", said.err)
    again = command(*words, *options.split()[:-2])
    assert again.err == said.err


def test_every_point_is_run_if_the_machine_is_the_last_rung() -> None:
    done = penstock.verify("zoo:lenet5", "host", last_rung="machine", every_point=True)
    assert [rung.step for rung in done.rungs] == ["machine", "points"]
