"""The schedule of an implementation chooses its tiles and the order of its loops."""

# pyright: reportPrivateUsage=false, reportUnknownLambdaType=false

from __future__ import annotations

from typing import Any

import pytest

import penstock
from examples.uma import schedules
from examples.uma.schedules import LOCAL, TILES, Tiled, network
from penstock.backends.uma import backend as facade
from penstock.errors import BackendError, UsageError
from penstock.tiling.layer import layer_of
from penstock.tiling.least_traffic import LoopOrder
from penstock.tiling.nest import choose
from penstock.uma import OpStrategy, Tiling


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> Tiled:
    monkeypatch.setattr(facade, "REGISTERED", {})
    backend = Tiled()
    backend.register()
    return backend


def driver_calls(done: penstock.Compiled) -> dict[str, int]:
    """How often the generated C loads each local memory, and computes a tile."""
    code = done.bundle()["pointwise.c"].decode()
    return {call: code.count(f"tiled_{call}") for call in ("load(0", "load(1", "run(")}


def compiled(order: str) -> penstock.Compiled:
    return penstock.compile(network(), "host", accelerators=(f"tiled:order={order}",))


def test_each_schedule_has_loads_of_its_own() -> None:
    rows, channels = driver_calls(compiled("rows")), driver_calls(compiled("channels"))
    # a memory of 256 bytes holds 2 of 8 rows of 128 bytes
    assert rows["load(0"] * 2 == 8
    assert rows["load(1"] == rows["run("]
    assert channels["load(0"] == channels["run("]
    assert channels["load(1"] < rows["load(1"]


def test_of_two_implementations_the_faster_schedule_runs() -> None:
    cycles = {
        order: compiled(order).compilation.schedule.cost.cycles
        for order in ("rows", "channels", "best")
    }
    assert cycles["best"] == min(cycles["rows"], cycles["channels"]) < max(cycles.values())


@pytest.mark.parametrize("order", ["rows", "channels"])
def test_each_schedule_is_exact_on_every_rung(order: str) -> None:
    done = penstock.verify(network(), "cortex-m4", accelerators=(f"tiled:order={order}",))
    assert {rung.step: rung.comparison.mismatches for rung in done.rungs} == {
        "machine": 0, "host": 0, "core": 0,
    }  # fmt: skip


def test_a_registered_tiler_takes_precedence(registered: Tiled) -> None:
    registered._register_tiler("pointwise", LoopOrder(("c", "h"), TILES))
    assert driver_calls(compiled("rows")) == driver_calls(compiled("channels"))


def in_order(*axes: str) -> Tiling:
    (node,) = network().nodes
    return choose(LoopOrder(axes, TILES), layer_of(node.op, node.site), LOCAL)


@pytest.mark.parametrize("axes", [("h", "c"), ("c", "h"), ("c", "h", "sum"), ("h",)])
def test_loops_run_in_the_stated_order(axes: tuple[str, ...]) -> None:
    tiling = in_order(*axes)
    assert tiling.order[-len(axes) :] == axes
    assert not tiling.faults
    points = sum((h[1] - h[0]) * (c[1] - c[0]) for h, c in _boxes(tiling))
    assert points == 8 * 24


def _boxes(tiling: Tiling) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    return [(step.box["h"], step.box["c"]) for step in tiling.steps()]


@pytest.mark.parametrize("axes", [("h", "k"), ("h", "h")])
def test_an_order_of_other_axes_is_refused(axes: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="loop order") as caught:
        in_order(*axes)
    assert caught.value.code == "tiling-007"


@pytest.mark.parametrize("schedule", [3, "hc", ("h", 3), {"h": 1}])
def test_other_objects_are_no_schedules(schedule: Any) -> None:
    with pytest.raises(BackendError) as caught:
        OpStrategy().add_implementation(lambda call: (), schedule, name="npu.conv2d")
    assert caught.value.code == "backend-036"
    assert "must be a tiler" in caught.value.why


def test_a_function_must_return_a_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "ROWS_OUTSIDE", lambda offloaded: 7)
    with pytest.raises(BackendError) as caught:
        compiled("rows")
    assert (caught.value.code, "tiled.rows" in caught.value.where) == ("backend-036", True)
    monkeypatch.setattr(schedules, "ROWS_OUTSIDE", lambda offloaded: ("h", "c"))
    assert driver_calls(compiled("rows"))["run("]
