"""penstock profile: the files that it writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import penstock as penstock_api
from command_line import CommandLine
from penstock.codegen.bundle import MANIFEST
from penstock.frontends.builder import GraphBuilder
from penstock.reports.layer import above_floor


def test_profile_writes_a_page_and_its_data(penstock: CommandLine, model: Path) -> None:
    said = penstock("profile", model, "-t", "host", "--accelerator", "nvdla", "-o", "out", "--json")
    assert (said.code, said.err) == (0, "")
    folder = Path("out")
    assert {p.name for p in folder.iterdir()} == {MANIFEST, "profile.html", "profile.json"}
    assert json.loads((folder / "profile.json").read_text()) == said.json
    assert '"resources":{' in (folder / "profile.html").read_text()
    other = penstock("compile", model, "-t", "host", "-o", "out")
    assert other.err.startswith("error[output-001]: the output folder exists")
    plain = penstock("profile", model, "-t", "host", "-o", "plain")
    assert plain.out.endswith("written to plain/\n")
    assert {p.name for p in Path("plain").iterdir()} == {p.name for p in folder.iterdir()}


@pytest.mark.parametrize("accelerator", [(), ("--accelerator", "smv")])
def test_a_failing_compiler_is_an_error_with_four_parts(
    accelerator: tuple[str, ...],
    penstock: CommandLine,
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.toolchains.cortex_m.zig_command", lambda: ("false",))
    words = ("profile", model, "-t", "cortex-m4", *accelerator)
    said = penstock(*words)
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith("error[tool-003]: false failed with exit code 1")
    assert all(f"\n  {part}" in said.err for part in ("--> ", "why: ", "help: "))
    said = penstock(*words, "--json")
    assert (said.code, said.json["error"]["code"]) == (1, "tool-003")
    said = penstock(*words, "--no-simulate")
    assert said.code == 0
    assert "nothing is simulated: as asked for" in said.out


def test_cycles_of_a_functional_driver_are_not_those_of_the_accelerator(
    penstock: CommandLine, model: Path
) -> None:
    pytest.importorskip("ethosu.vela", reason="the extra 'ethos-u' is not installed")
    words = ("profile", model, "-t", "cortex-m55", "--accelerator", "ethos_u55")
    said = penstock(*words, "--json")
    assert (said.code, said.err) == (0, "")
    assert said.json["unmeasured"] is None
    assert said.json["cycles"]["simulated"] is None
    assert said.json["cycles"]["estimated"] > 0


def test_the_floor_is_that_of_kernels_and_below_their_cycles() -> None:
    """A wide pointwise layer comes close to it; portable kernels have none."""
    pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")
    net = GraphBuilder("pointwise")
    graph = net.build(net.conv2d(net.input((1, 6, 6, 512)), 32, 1))
    for target, expected in (("cortex-m4", True), ("cortex-m4-portable", False)):
        done = penstock_api.profile(graph, target)
        (ratio,) = map(above_floor, done.report.model_layers)
        assert (ratio is not None) == expected
        assert ratio is None or 1 < ratio < 1.1
