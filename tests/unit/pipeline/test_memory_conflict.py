"""Memory conflicts: the tensors that the capacity error lists."""

from dataclasses import replace

import pytest

from penstock import api
from penstock.frontends.builder import GraphBuilder
from penstock.memory.problem import LiveBuffer, PlacementProblem
from penstock.pipeline import capacity as module
from penstock.pipeline.capacity import memory_conflict
from penstock.pipeline.compilation import compile_request

pytestmark = pytest.mark.usefixtures("constraint_solver")


@pytest.fixture(scope="module")
def lenet() -> module.PlacedPoint:
    """The smallest point of a network."""
    return compile_request(api.request("zoo:lenet5", "cortex-m4")).points[0]


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_the_irreducible_tensors_exceed_the_budget_and_fit_without_any_one(
    lenet: module.PlacedPoint, share: float
) -> None:
    request = api.request("zoo:lenet5", "cortex-m4")
    budget = request.stack_bytes + int(share * lenet.height_bytes)
    found = memory_conflict(lenet, replace(request, sram_bytes=budget))
    assert found.available_bytes == budget - request.stack_bytes
    live = {tensor.name: tensor.live_bytes for tensor in found.held}
    assert sum(live.values()) == lenet.schedule.peak_bytes
    sizes = [live[name] for name in found.irreducible]
    assert sum(sizes) > found.available_bytes >= sum(sizes) - min(sizes)
    assert sizes == sorted(sizes, reverse=True)


def test_a_stack_that_takes_the_budget_leaves_nothing(lenet: module.PlacedPoint) -> None:
    request = api.request("zoo:lenet5", "cortex-m4", sram=512)
    assert memory_conflict(lenet, request).available_bytes == 0


def test_a_memory_of_its_own_that_is_too_small_is_the_one_reported() -> None:
    wanted = api.request("zoo:resnet8", accelerators=("nvdla:config=large",))
    done = compile_request(wanted)
    point = next(p for p in done.points if dict(p.others)["cvsram"].height_bytes > 64)
    small = replace(wanted, target=wanted.target.resized({"cvsram": 64}))
    found = memory_conflict(point, small)
    assert (found.memory, found.available_bytes) == ("cvsram", 64)
    assert found.irreducible


def test_fragmentation_alone_has_its_conflict_too(
    lenet: module.PlacedPoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = ((2, 7, 6), (1, 6, 2), (3, 4, 2), (6, 7, 5), (0, 1, 3), (4, 5, 3), (0, 2, 5), (5, 6, 2))
    rows = (*rows, (0, 3, 2), (1, 2, 2))  # 11 bytes are live at a time, 12 are needed
    buffers = tuple(LiveBuffer(f"b{i}", *row) for i, row in enumerate(rows))
    memory = lenet.schedule.memory.default
    monkeypatch.setattr(
        module, "placement_problems", lambda _: ((memory, PlacementProblem(buffers)),)
    )
    request = api.request("zoo:lenet5", "cortex-m4", sram=1024 + 11)
    found = memory_conflict(lenet, request)
    assert sum(tensor.live_bytes for tensor in found.held) == 11
    assert set(found.irreducible) <= {buffer.name for buffer in buffers}
    assert len(found.irreducible) > 1


def test_tensors_of_an_exchanged_network_have_the_names_of_the_model() -> None:
    """Images with more columns than rows are exchanged; the peak is in the exchanged part."""
    net = GraphBuilder("wide", 1)
    y = net.conv2d(net.input((1, 6, 60, 2)), 8, 3, name="first;joined")
    y = net.conv2d(y, 8, 3, name="first;other")
    graph = net.build(net.conv2d(y, 8, 3, name="last;joined"))
    done = compile_request(api.request(graph, "cortex-m4"))
    point = done.points[0]
    assert point.schedule.assigned_parts.alternative
    found = memory_conflict(point, replace(done.request, sram_bytes=1100))
    names = [tensor.name for tensor in found.held]
    own = {"input", "first;joined", "first;other", "last"}
    remarks = {f"{name}{remark}" for name in own for remark in (" (in another form)", " (scratch)")}
    scratch = {f"{name} (in another form) (scratch)" for name in own}
    assert set(names) <= own | remarks | scratch
    assert all(tensor.live_bytes <= tensor.whole_bytes for tensor in found.held)
