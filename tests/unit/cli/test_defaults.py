"""The default options of a compilation, and the alternatives in the summary."""

from __future__ import annotations

import inspect
from fractions import Fraction
from functools import cache
from pathlib import Path

import pytest

import penstock as package
from command_line import CommandLine
from penstock import api
from penstock.cli import build, check, execute, show
from penstock.hardware.default_target import DEFAULT_TARGET
from penstock.pareto import noticeably_faster

COMMANDS = (
    *(build.compile, build.explore, execute.run, check.verify, execute.profile, show.show),
    *(api.request, api.compile, api.explore, api.run, api.verify),
)
NETWORKS = ("zoo:lenet5", "zoo:resnet8:resolution=16")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_the_same_default_target(command: object) -> None:
    assert callable(command)
    assert inspect.signature(command).parameters["target"].default == DEFAULT_TARGET == "cortex-m4"


@cache
def compiled(network: str) -> api.Compiled:
    """The network compiled without a budget or a goal."""
    return package.compile(network)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("budgeted", [False, True])
def test_each_goal_picks_the_point_that_brute_force_picks(network: str, budgeted: bool) -> None:
    whole = compiled(network).report
    budget = whole.frontier[len(whole.frontier) // 2].ram_bytes if budgeted else None
    fitting = [p for p in whole.frontier if budget is None or p.ram_bytes <= budget]
    fastest = min(p.cycles for p in fitting)
    near = [p for p in fitting if Fraction(p.cycles, fastest) <= Fraction(101, 100)]
    wanted = {
        "speed": min(p.ram_bytes for p in fitting if p.cycles == fastest),
        "balanced": min(p.ram_bytes for p in near),
        "size": min(p.ram_bytes for p in fitting),
    }
    wanted[""] = wanted["speed" if budgeted else "balanced"]
    for goal, ram_bytes in wanted.items():
        if goal:
            done = package.compile(network, sram=budget, optimize=goal)
        else:
            done = package.compile(network, sram=budget) if budgeted else compiled(network)
        assert done.report.ram_bytes.total == ram_bytes, goal
        assert [p.ram_bytes for p in done.report.frontier if p.chosen] == [ram_bytes]
        compiler = done.compilation.request.target.compiler
        assert compiler.optimise == done.report.optimised_for
        assert compiler.optimise == ("size" if goal == "size" else "speed")


def test_the_size_of_the_arena_s_memory_is_a_budget() -> None:
    wanted = api.request("zoo:lenet5", memory={"sram": "64KiB"})
    assert wanted.goal.value == "speed"
    assert api.request("zoo:lenet5", memory={"flash": "64KiB"}).goal.value == "balanced"


@pytest.mark.parametrize(
    "options",
    [(), ("--sram", "3200"), ("--optimize", "size"), ("--memory", "sram=3200"),
     ("--stream-input",), ("--sram", "3200", "--optimize", "balanced")],
    ids=" ".join,
)  # fmt: skip
def test_alternatives_are_exact(
    penstock: CommandLine, model: Path, options: tuple[str, ...]
) -> None:
    for network in ("zoo:lenet5", str(model)):
        found = penstock("compile", network, *options, "--json", "-o", f"{len(network)}").json
        assert found["alternatives"] or network != "zoo:lenet5"
        for k, other in enumerate(found["alternatives"]):
            words = (*options, *other["options"].split())
            said = penstock("compile", network, *words, "--json", "-o", f"{len(network)}_{k}").json
            found_now = said["ram_bytes"]["total"], said["cycles"]["estimated"]
            if "--sram" not in words:
                assert found_now == (other["ram_bytes"], other["cycles"]), words
                continue
            # A budget selects the least code of the schedules that are hardly slower.
            assert found_now[0] <= other["ram_bytes"], words
            assert not noticeably_faster(other["cycles"], than=found_now[1]), words
