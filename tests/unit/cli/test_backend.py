"""Accelerators on the command line: lists, attributes, errors of broken ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import CommandLine
from installed import install
from penstock.backends import discovery
from penstock.backends.discovery import names

BACKEND = """
from penstock.uma import OpStrategy, UMABackend, is_constant, is_op, wildcard

def nothing_yet(attrs, inputs, out_type, target):
    return OpStrategy()

class Backend(UMABackend):
    target_name = "listed_npu"

    def __init__(self):
        super().__init__()
        self._register_target_attr("lanes", default=8)
        self._register_pattern("dense", is_op("nn.dense")(wildcard(), is_constant()))
        self._register_operator_strategy("nn.dense", nothing_yet)
"""
VERBS = ("compile", "explore", "run", "verify", "profile", "show")


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One package that is right and one that is broken."""
    folder = tmp_path / "packages"
    install(folder, "a-good-one", "1.2", "listed_npu", "listed_npu_module:Backend",
            listed_npu_module=BACKEND)  # fmt: skip
    install(folder, "a-broken-one", "0.1", "broken_npu", "no_such_module:Backend")
    monkeypatch.syspath_prepend(folder)
    return folder


def test_backends_are_listed_with_attributes_patterns_and_operators(
    penstock: CommandLine, packages: Path
) -> None:
    said = penstock("backend", "list", "--json")
    assert said.code == 0
    found = {one["name"]: one for one in said.json["backends"]}
    assert list(found) == sorted(names())
    assert found["listed_npu"] == {
        "name": "listed_npu",
        "origin": "package a-good-one 1.2",
        "attributes": {"lanes": 8},
        "patterns": ["dense"],
        "operators": ["nn.dense"],
        "problem": "",
    }
    assert "package a-broken-one 0.1" in found["broken_npu"]["problem"]


def test_a_broken_backend_is_listed_as_broken(penstock: CommandLine, packages: Path) -> None:
    said = penstock("backend", "list")
    assert said.code == 0
    lines = said.out.splitlines()
    assert any(line.split()[:2] == ["listed_npu", "package"] for line in lines)
    assert "attributes: lanes=8" in said.out
    assert "broken: error[backend-049]" in said.out


def test_published_backends_that_are_not_installed_are_named(
    penstock: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "entry_points", lambda group: ())
    monkeypatch.setattr(discovery, "registered", dict)  # other tests may register backends
    said = penstock("backend", "list")
    assert said.code == 0
    assert "not installed: dot4, ethos_u55, " in said.out
    assert penstock("backend", "list", "--json").json == {"backends": []}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_takes_accelerators(
    penstock: CommandLine, packages: Path, model: Path, verb: str
) -> None:
    said = penstock(verb, model, "--accelerator", "listed_npu:lanes=many")
    assert said.code == 2
    assert said.err.startswith("error[usage-019]: attribute lanes is 'many'")
    said = penstock(verb, model, "--strict", "--accelerator", "broken_npu")
    assert said.code == 1
    assert said.err.startswith("error[backend-049]")


def test_strict_fails_where_a_node_is_left(
    penstock: CommandLine, packages: Path, model: Path, tmp_path: Path
) -> None:
    words = ("compile", model, "--accelerator", "listed_npu:lanes=4", "-o", "out")
    said = penstock(*words, "--strict")
    assert said.code == 1
    assert "back to the CPU" in said.err
    assert not (tmp_path / "out").exists()
    assert penstock(*words).code == 0


def test_nodes_are_shown_as_patterns_see_them_and_who_runs_each(penstock: CommandLine) -> None:
    said = penstock("show", "zoo:lenet5", "--nodes", "--accelerator", "vanilla", "--json")
    engines = {node["name"]: (node["kind"], node["engine"]) for node in said.json["nodes"]}
    assert engines["conv1"] == ("conv2d", "vanilla")
    assert engines["pool1"] == ("MaxPool2D", "cpu")
    text = penstock("show", "zoo:lenet5", "--nodes").out
    assert len(text.splitlines()) == len(engines) + 2  # a heading and a line


def test_ops_lists_the_facts_about_an_operator(penstock: CommandLine) -> None:
    facts, _ = penstock("ops", "nn.depthwise_conv2d", "--json").json["operators"]
    assert facts["operator"] == "DepthwiseConv2D"
    assert "DEPTHWISE_CONV_2D" in facts["names"]
    assert "multiplier_d" in facts["parameters"]
    wide = {f"wide_{name}" for name in ("bias", "forms", "places", "weights")}
    assert set(facts["tables"]) == {"multiplier", "shift", "forms"} | wide
    assert "weights of depthwise convolutions are (1, K, L, O)" in facts["definition"]
    assert facts["definition"] in penstock("ops", "nn.depthwise_conv2d").out
    assert "f = My * (M0 * (a << 20) +" in penstock("ops", "add").out
    wrong = penstock("ops", "nn.depthwise_conv3d")
    assert (wrong.code, "nn.depthwise_conv2d" in wrong.err) == (1, True)


def test_verify_lists_the_work_of_each_engine(penstock: CommandLine) -> None:
    words = ("verify", "zoo:lenet5", "--target", "host", "--accelerator")
    assert "vanilla runs 2 nodes in 2 calls" in penstock(*words, "vanilla").out
    assert "ultra_trail runs no node of this model" in penstock(*words, "ultra_trail").out


def test_programs_beside_accelerators_have_a_text(penstock: CommandLine) -> None:
    words = {"assign": "on vanilla", "schedule": "frontier of lenet5", "lower": "vanilla"}
    for stage, word in words.items():
        said = penstock("show", "zoo:lenet5", "--accelerator", "vanilla", "--stop-after", stage)
        assert (said.code, word in said.out) == (0, True)
