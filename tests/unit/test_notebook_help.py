"""The public API in a notebook: explicit keyword parameters, documented frozen records."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable

import pytest

import penstock
from command_line import CommandLine
from penstock import api
from penstock.api.settings import Settings
from penstock.pipeline.request import KEYWORDS
from penstock.reports.report import Report

FUNCTIONS = (
    *(penstock.compile, penstock.explore, penstock.run, penstock.verify, penstock.profile),
    penstock.show,
)
RECORDS = (penstock.Compiled, penstock.Explored, penstock.Ran, penstock.Verified)
DEFAULTS = {one.name: one.python_default for one in KEYWORDS}


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_each_setting_is_a_keyword_with_a_description(function: object) -> None:
    assert callable(function)
    parameters = inspect.signature(function).parameters
    assert not [p for p in parameters.values() if p.kind is inspect.Parameter.VAR_KEYWORD]
    described = re.findall(r"^  (\w+): ", inspect.getdoc(function) or "", re.MULTILINE)
    assert described == list(Settings.__annotations__) == list(DEFAULTS)
    assert {name: parameters[name].default for name in described} == DEFAULTS


@pytest.mark.parametrize("function", [*FUNCTIONS, penstock.golden, penstock.scan])
def test_help_shows_no_addresses(function: Callable[..., object]) -> None:
    assert " at 0x" not in str(inspect.signature(function))


@pytest.mark.parametrize("function", [*FUNCTIONS, penstock.golden, penstock.scan])
def test_every_own_parameter_is_described(function: object) -> None:
    text = inspect.getdoc(function) or ""
    known = {"model", "target", "folder", *Settings.__annotations__}
    own = [name for name in inspect.signature(function).parameters if name not in known]  # pyright: ignore
    missing = [name for name in own if not re.search(rf"\b{name}\b", text)]
    assert missing in ([], ["settings"])


def test_the_defaults_are_those_of_a_request() -> None:
    assert api.request("zoo:lenet5", **DEFAULTS) == api.request("zoo:lenet5")


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_results_are_frozen_records_with_described_fields(record: type) -> None:
    assert dataclasses.is_dataclass(record)
    assert record.__dataclass_params__.frozen  # pyright: ignore
    for field in dataclasses.fields(record):
        assert re.search(rf"^\s*{field.name}: ", record.__doc__ or "", re.MULTILINE), field.name


def test_the_report_is_a_frozen_record() -> None:
    assert Report.__dataclass_params__.frozen  # pyright: ignore


def test_profile_and_show_take_models() -> None:
    ran = penstock.profile("zoo:lenet5", simulate=False, clock="1MHz")
    assert ran.report.clock_hz == 1_000_000
    assert penstock.show("zoo:lenet5", stop_after="read").startswith("graph ")
    with pytest.raises(penstock.UsageError, match="unknown value 'reed'") as caught:
        penstock.show("zoo:lenet5", stop_after="reed")
    assert caught.value.help.startswith("did you mean read? ")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("penstock compi", ["compile"]),
        ("penstock compile --stream", ["--stream-input"]),
        ("penstock compile net.tflite --target cortex-m0", ["cortex-m0plus"]),
        ("penstock backend l", ["list"]),
    ],
)
def test_shells_complete_commands_options_and_targets(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: str,
    expected: list[str],
) -> None:
    monkeypatch.setenv("_PENSTOCK_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    said = CommandLine(monkeypatch, capsys)()
    assert (said.code, said.out.split()) == (0, expected)
