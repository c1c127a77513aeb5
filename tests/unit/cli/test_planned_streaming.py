"""Networks for which a streamed input is planned beside the request."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import penstock as package
from command_line import CommandLine
from penstock import alternatives, api

NETWORK = "zoo:lenet5"


def test_large_networks_are_not_planned_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = package.compile(NETWORK).report
    parts = len(package.compile(NETWORK).compilation.parts.parts)
    streamed = package.compile(NETWORK, stream_input=True, optimize="size").report.ram_bytes.total
    assert planned.ram_bytes_streamed_input == streamed
    monkeypatch.setattr(alternatives, "PLANNED_PARTS", parts - 1)
    assert package.compile(NETWORK).report.ram_bytes_streamed_input is None
    asked = package.compile(NETWORK, plan_streaming=True).report
    assert (asked.ram_bytes_streamed_input, asked.alternatives) == (streamed, planned.alternatives)
    monkeypatch.setattr(alternatives, "PLANNED_PARTS", parts)
    assert package.compile(NETWORK, plan_streaming=False).report.ram_bytes_streamed_input is None
    with ThreadPoolExecutor(1) as executor:
        for plan in (False, None):
            elsewhere = package.compile(NETWORK, workers=executor, plan_streaming=plan).report
            assert elsewhere == package.compile(NETWORK, plan_streaming=plan).report


def test_a_choice_of_memories_lowers_the_limit() -> None:
    one, several = api.request(NETWORK), api.request(NETWORK, "two-region")
    least, most = alternatives.PLANNED_PARTS_WITH_MEMORIES, alternatives.PLANNED_PARTS
    for request, limit in ((one, most), (several, least)):
        assert alternatives.is_planned(limit, request)
        assert not alternatives.is_planned(limit + 1, request)


def test_the_summary_says_that_streaming_was_not_planned(
    penstock: CommandLine, model: Path
) -> None:
    said = penstock("compile", model, "--no-plan-streaming").out
    assert "a streamed input was not planned: --plan-streaming" in said
    assert "--plan-streaming" not in penstock("compile", model, "-o", "other").out
