"""Commands that reports offer state the request that they were made from, or select a point."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from command_line import CommandLine
from penstock import api
from penstock.errors import UsageError
from penstock.pareto import noticeably_faster
from penstock.pipeline.emission import command_line
from penstock.pipeline.request import SETTINGS, Request

LINES = (
    "zoo:lenet5",
    "zoo:lenet5 --target cortex-m7 --sram 64KiB --optimize size --flash 300KiB --stack 2KiB",
    "zoo:lenet5 --memory sram=32KiB --rounding single --stream-input --keep-input",
    "zoo:lenet5 --no-accumulate --max-parts 7 --max-recompute 1.5 --order dfs --strict "
    "--accelerator dot4:sum_bytes=128",
    "zoo:lenet5 --accelerator nvdla --target host",
    "zoo:lenet5 --accelerator nvdla:config=large --memory cvsram=1KiB",
    "'a file.onnx' --dimension batch=1 --state a=b --incremental 2 --assume-int8 --io model",
    "zoo:lenet5 --name abc --clock 84.5MHz --kernels portable --no-plan-streaming",
    "net.onnx --size-limit 1MiB --plan-streaming",
    "net.onnx --quantise samples.npz --dimension batch=1 --channels-last 'an image'",
)


@pytest.mark.parametrize("line", LINES)
def test_a_command_states_its_request(
    penstock: CommandLine, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    requests: list[Request] = []

    def capture(
        model: str, target: str, *, workers: int, on_stage: object, cache: bool, **settings: Any
    ) -> None:
        requests.append(api.request(model, target, **settings))
        raise UsageError("usage-000", "captured")

    monkeypatch.setattr(api, "compile", capture)
    penstock("compile", *shlex.split(line))
    (first,) = requests
    program, *words = shlex.split(str(command_line(first)))
    assert program == "penstock"
    penstock(*words)
    assert repr(requests[1]) == repr(first)
    for one in SETTINGS:
        assert list(one.stated(requests[1])) == list(one.stated(first))
    names = ("sram_bytes", "flash_bytes", "stack_bytes", "optimize", "options", "reading")
    for name in (*names, "stream_input", "rounding", "io", "strict", "model"):
        assert getattr(requests[1], name) == getattr(first, name)
    assert requests[1].target.memories == first.target.memories
    attributes = [[(one.name, one.target.attrs) for one in r.accelerators] for r in requests]
    assert attributes[0] == attributes[1]


def test_the_command_of_a_point_selects_it(penstock: CommandLine) -> None:
    found = api.explore("zoo:lenet5", "cortex-m4")
    for streamed, points in ((False, found.choices.choices), (True, found.choices.streamed or ())):
        for point in (points[0], points[-1]):
            command = str(found.choices.command.selecting(point.ram_bytes, streamed=streamed))
            said = penstock(*shlex.split(command)[1:], "--json", "-o", f"{streamed}{point.calls}")
            # A budget selects the least code of the schedules that are hardly slower.
            assert said.json["ram_bytes"]["total"] <= point.ram_bytes
            assert not noticeably_faster(point.cycles, than=said.json["cycles"]["estimated"])
