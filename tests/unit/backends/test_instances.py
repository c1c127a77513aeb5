"""Instances of an accelerator share its calls in turn, where the target file lists them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import penstock
from examples.uma.instances import TARGET, Twins
from examples.uma.regions import Pools, network
from penstock import api
from penstock.backends.uma import backend as facade
from penstock.errors import BackendError, TargetError
from penstock.hardware.load import load_target, target_text
from penstock.simulators.machine import Machine
from penstock.uma import Driver


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facade, "REGISTERED", {})
    Twins().register()


def target(tmp_path: Path, added: str = TARGET) -> str:
    """A target file with accelerators."""
    path = tmp_path / "board.toml"
    path.write_text(target_text("cortex-m4") + added, "utf-8")
    return str(path)


def selected(done: penstock.Compiled) -> list[int]:
    """The units that the generated C selects, in order."""
    code = done.bundle()["chain.c"].decode()
    return [int(unit) for unit in re.findall(r"    twins_select\((\d+)\);", code)]


@pytest.mark.parametrize(("count", "units"), [(1, []), (2, [0, 1, 0]), (3, [0, 1, 2])])
def test_calls_use_the_instances_in_turn(tmp_path: Path, count: int, units: list[int]) -> None:
    file = target(tmp_path, TARGET.replace("= 2", f"= {count}"))
    assert selected(penstock.compile(network(), file, accelerators=("twins",))) == units


def test_without_a_list_there_is_one_instance() -> None:
    assert selected(penstock.compile(network(), "cortex-m4", accelerators=("twins",))) == []


def test_both_units_execute_layers(tmp_path: Path) -> None:
    done = penstock.compile(network(), target(tmp_path), accelerators=("twins",)).compilation
    machine: Any = Machine(done.program)
    machine.run(api.drawn_sets(done, 1)[0])
    assert machine._devices.states["twins"].layers == [2, 1]


def test_two_instances_are_exact_on_every_rung(tmp_path: Path) -> None:
    done = penstock.verify(network(), target(tmp_path), accelerators=("twins",))
    assert {rung.step: rung.comparison.mismatches for rung in done.rungs} == {
        "machine": 0, "host": 0, "core": 0,
    }  # fmt: skip


def test_an_accelerator_that_cannot_select_is_refused(tmp_path: Path) -> None:
    Pools().register()
    file = target(tmp_path, TARGET.replace("twins", "pools"))
    with pytest.raises(BackendError) as caught:
        penstock.compile(network(), file, accelerators=("pools",))
    assert caught.value.code == "backend-066"


def test_streams_are_submitted_to_instances_in_turn(tmp_path: Path) -> None:
    backend: Any = Pools(merge=False)
    backend._register_instances(penstock_select())
    backend.register()
    file = target(tmp_path, TARGET.replace("twins", "pools"))
    code = penstock.compile(network(), file, accelerators=("pools",)).bundle()["chain.c"].decode()
    calls = re.findall(r"    (pools_select\(\d\)|pools_submit)", code)
    assert calls == [
        word for unit in (0, 1, 0) for word in (f"pools_select({unit})", "pools_submit")
    ]


def penstock_select() -> Any:
    return Driver("pools_select", "pools", lambda device, unit: None, device=dict)


def test_a_list_names_each_accelerator_once(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="distinct"):
        load_target(target(tmp_path, TARGET * 2))
