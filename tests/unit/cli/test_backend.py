"""Accelerators on the command line: listed, named with attributes, and told apart when broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import CommandLine
from installed import install
from penstock.accelerators.registry import names

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


def test_backends_are_listed_with_what_they_have(penstock: CommandLine, packages: Path) -> None:
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
    assert "left to the processor" in said.err
    assert not (tmp_path / "out").exists()
    assert penstock(*words).code == 0
