"""Optional work that fails breaks no compilation: it is dropped, recorded and logged."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import pytest

from offloading import assert_exact
from penstock import alternatives, api
from penstock.api import compiling
from penstock.errors import BackendError, CapacityError, InternalError, ModelError
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph
from penstock.limits import TimeLimitReached
from penstock.memory.problem import PlacementProblem
from penstock.optional import (
    Dropped,
    Elsewhere,
    Failed,
    attempt,
    attempt_all,
    attempt_each,
    collected,
    elsewhere,
    outcome,
    recorded,
    strict,
    succeeded,
)
from penstock.pipeline import assignment, capacity, compilation, placing, stages
from penstock.pipeline.placing import PlacedPoint
from penstock.reports import html
from penstock.scheduling.bands.below_rows import BelowRows
from penstock.scheduling.cascades.proposals import Proposal
from penstock.scheduling.cascades.schedule_builder import ScheduleBuilder
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule


@pytest.fixture
def lenient() -> Iterator[None]:
    """As outside of tests."""
    with strict(False):
        yield


def fail(*arguments: object, **named: object) -> NoReturn:
    raise RuntimeError("a defect")


def test_a_failure_is_dropped_and_recorded(lenient: None, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "penstock.optional")
    with recorded() as dropped:
        assert attempt("a plan", fail, lambda: 7) == 7
    (one,) = dropped
    assert one.plan == "a plan"
    assert one.error.startswith("internal-001: RuntimeError: a defect (test_optional.py:")
    assert "dropped a plan" in caplog.text


def test_a_result_is_not_dropped() -> None:
    with recorded() as dropped:
        assert attempt("a plan", lambda: 3, fail) == 3
        assert list(attempt_each("items", lambda: [1, 2])) == [1, 2]
        assert list(attempt_all("items", [1, 2], lambda n: n + 1)) == [2, 3]
        assert list(attempt_all("items", [], fail)) == []
    assert dropped == []


def test_items_end_where_one_fails(lenient: None) -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ModelError("model-001", "wrong")

    with recorded() as dropped:
        assert list(attempt_each("items", items)) == [1]
    assert dropped == [Dropped("items", "model-001: wrong")]


def test_one_of_all_must_succeed(lenient: None) -> None:
    def inverse(n: int) -> float:
        return 1 / n

    with recorded() as dropped:
        assert list(attempt_all("items", [0, 2, 0, 4], inverse)) == [0.5, 0.25]
    assert len(dropped) == 2
    with pytest.raises(ZeroDivisionError):
        list(attempt_all("items", [0, 0], inverse))


def test_strict_mode_raises() -> None:
    with pytest.raises(InternalError, match="a defect"):
        attempt("a plan", fail, lambda: 0)
    with pytest.raises(InternalError, match="a defect"):
        list(attempt_all("plans", [1], fail))
    with pytest.raises(InternalError, match="a defect"):
        outcome(fail, 1)
    with pytest.raises(InternalError, match="a plan"):
        collected(Elsewhere(1, (Dropped("a plan", "why"),)))


@pytest.mark.parametrize(
    "error",
    [KeyboardInterrupt(), TimeLimitReached(), SystemExit(1), BackendError("backend-001", "wrong")],
)
def test_interruptions_and_errors_of_authors_pass(lenient: None, error: BaseException) -> None:
    def interrupt(*arguments: object) -> NoReturn:
        raise error

    with pytest.raises(type(error)):
        attempt("a plan", interrupt, lambda: None)
    with pytest.raises(type(error)):
        list(attempt_each("plans", interrupt))
    with pytest.raises(type(error)):
        list(attempt_all("plans", [1], interrupt))
    with pytest.raises(type(error)):
        outcome(interrupt, 1)


def test_an_interruption_of_compiled_code_passes(lenient: None) -> None:
    """Numba raises a SystemError from it."""

    def compute() -> NoReturn:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as cause:
            raise SystemError("of compiled code") from cause

    with pytest.raises(KeyboardInterrupt):
        attempt("a plan", compute, lambda: None)
    with pytest.raises(KeyboardInterrupt):
        outcome(lambda n: compute(), 1)


def test_what_a_worker_drops_is_recorded_here(lenient: None) -> None:
    found = elsewhere(lambda: attempt("a plan", fail, lambda: 7))
    with recorded() as dropped:
        assert collected(found) == 7
    assert [one.plan for one in dropped] == ["a plan"]


def test_the_outcome_of_a_task_may_be_a_failure(lenient: None) -> None:
    failed = outcome(fail, 1)
    assert isinstance(failed, Failed)
    assert outcome(fail, failed) is failed
    assert succeeded(outcome(abs, -2)) == 2
    with pytest.raises(InternalError, match="a defect"):
        succeeded(failed)


def network() -> Graph:
    """A wide image with hidden channels: there are all kinds of alternatives."""
    net = GraphBuilder("wide")
    x = net.conv2d(net.input((1, 6, 24, 3)), 48, 1, activation="relu", name="expand")
    x = net.depthwise_conv2d(x, 3, name="depthwise")
    return net.build(net.conv2d(x, 3, 1, name="project"))


def fail_if(condition: Callable[..., bool], original: Callable[..., Any]) -> Callable[..., Any]:
    """A function that fails in some cases."""

    def function(*arguments: Any, **named: Any) -> Any:
        if condition(*arguments):
            fail()
        return original(*arguments, **named)

    return function


def is_optional(point: PlacedPoint, *others: object) -> bool:
    return point.is_optional


def is_small(builder: ScheduleBuilder, proposal: Proposal) -> bool:
    return proposal.peak_bytes < 2000


def is_of_an_alternative(builder: ScheduleBuilder, proposal: Proposal) -> bool:
    return bool(builder.accounting.parts.alternative)


def has_bands(expanded: ExpandedSchedule, *_: object) -> bool:
    return bool(expanded.schedule.bands)


def is_large(
    options: object, blocks: tuple[Sequence[tuple[str, PlacementProblem, object]], object]
) -> bool:
    return len(blocks[0][0][1].buffers) > 20


Fault = tuple[object, str, Callable[..., bool] | None]
"""A function of a module or class, and when it fails; None: always."""
FAULTS: dict[str, tuple[Fault, ...]] = {
    "exchanged axes": ((assignment, "exchange_axes", None),),
    "rows of matrices": ((assignment, "matrix_rows", None),),
    "channel groups": ((assignment, "grouped_graphs", None),),
    "bands of columns": ((BelowRows, "sources", None), (BelowRows, "schedules", None)),
    "a streamed input": ((alternatives, "planned", None),),
    "other options": ((alternatives, "_named", None),),
    "an incremental network": ((alternatives, "incremental", None),),
    "portable layers": ((compiling, "portable_layers", None),),
    "competing kernels": ((compiling, "kernels_in_competition", None),),
    "a schedule": (
        (ScheduleBuilder, "schedule", is_small),
        (ScheduleBuilder, "schedule", is_of_an_alternative),
    ),
    "a point of the frontier": (
        (placing, "with_placed_costs", has_bands),
        (placing, "_place_blocks", is_large),
    ),
    "the chosen point": ((stages, "draft", is_optional),),
}
CASES = [
    pytest.param(plan, fault, id=f"{plan}-{k}")
    for plan, faults in FAULTS.items()
    for k, fault in enumerate(faults)
]


@pytest.mark.parametrize(("plan", "fault"), CASES)
def test_a_compilation_succeeds_without_what_fails(
    plan: str,
    fault: Fault,
    lenient: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place, name, condition = fault
    broken = fail if condition is None else fail_if(condition, getattr(place, name))
    monkeypatch.setattr(place, name, broken)
    done = api.compile(network(), "cortex-m4", optimize="size")
    assert plan in {one.plan for one in done.report.dropped}
    assert_exact(done.compilation, "machine")
    found = json.loads(dict(done.bundle().files)["report.json"])
    assert [one["plan"] for one in found["dropped"]] == [d.plan for d in done.report.dropped]


@pytest.mark.parametrize(("plan", "fault"), CASES)
def test_the_same_failure_is_raised_in_tests(
    plan: str,
    fault: Fault,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place, name, condition = fault
    broken = fail if condition is None else fail_if(condition, getattr(place, name))
    monkeypatch.setattr(place, name, broken)
    with pytest.raises(InternalError, match="a defect"):
        api.compile(network(), "cortex-m4", optimize="size")


def test_a_page_that_fails_is_left_out(lenient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "render_html", fail)
    files = dict(api.compile(network(), "host").bundle().files)
    assert "report.html" not in files
    assert json.loads(files["report.json"])["dropped"][0]["plan"] == "report.html"


@pytest.mark.parametrize(
    "name", ["memory_conflict", "smallest_point", "_larger", "channels_first", "smaller_kernels"]
)
def test_an_error_states_what_is_known(
    name: str, lenient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capacity, name, fail)
    with pytest.raises(CapacityError, match="the budget is 1200"):
        api.compile(network(), "cortex-m4", sram=1200, flash=100)


def test_an_error_about_flash_states_what_is_known(
    lenient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compilation, "_fitting", fail)
    with pytest.raises(CapacityError, match="constants"):
        api.compile(network(), "cortex-m4", flash=100)


def test_what_is_necessary_fails(lenient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placing, "with_placed_costs", fail)
    with pytest.raises(RuntimeError, match="a defect"):
        api.compile(network(), "cortex-m4")
    monkeypatch.undo()
    monkeypatch.setattr(stages, "lower_point", fail)
    with pytest.raises(RuntimeError, match="a defect"):
        api.compile(network(), "cortex-m4", plan_streaming=False)
