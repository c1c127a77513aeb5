"""Networks on which another cascading scheduler is known to have failed: tensors that were counted
though they were not there, a plan that grew when the budget shrank, branches that took for ever,
and answers that changed from run to run.  And rules of the search: that they pay."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from available import path_of
from cascade_judge import Judge, efficient, points
from penstock.backends.processor_parts import Engines, assign
from penstock.errors import CapacityError
from penstock.frontends.builder import GraphBuilder
from penstock.hardware.load import load_target
from penstock.ir.graph import Graph, Value
from penstock.passes.accumulate import accumulate
from penstock.pipeline.assignment import assign_engines
from penstock.pipeline.choosing import choose
from penstock.pipeline.graphs import read, simplify
from penstock.pipeline.placing import PlacedPoint, place
from penstock.pipeline.request import Request
from penstock.pipeline.search import schedule
from penstock.scheduling.cascades.proposals import Proposal, proposals
from penstock.scheduling.cascades.rows import UniformSearch
from penstock.scheduling.model.memories import MemoryAssignment
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.options import Options

HOST = load_target("host")
MODEL = Engines(HOST.engines[0])
MEMORY = MemoryAssignment("sram", "flash")
MOBILENET = Request("zoo:mobilenet_v1:resolution=96", HOST)


def pooled_pairs(blocks: int, resolution: int = 16) -> Graph:
    """As VGG: convolutions of 3 x 3, each pair followed by a pool of 2 x 2."""
    net = GraphBuilder("pooled_pairs")
    x = net.input((1, resolution, resolution, 3))
    for k in range(blocks):
        x = net.conv2d(x, 4 << k, 3, activation="relu", name=f"conv{k}a")
        x = net.conv2d(x, 4 << k, 3, activation="relu", name=f"conv{k}b")
        x = net.max_pool2d(x, 2, name=f"pool{k}")
    return net.build(x)


def parts_in(model: str) -> Parts:
    return assign(accumulate(simplify(read(model))), HOST)


def searched(parts: Parts, options: Options) -> tuple[UniformSearch, list[Proposal]]:
    """The search of the file's order, and what it found."""
    order = tuple(range(len(parts.parts)))
    search = UniformSearch(parts, order, MODEL, MEMORY, options)
    return search, list(proposals(order, search.candidates, MEMORY, 0))


def frontier_of(found: list[Proposal]) -> list[tuple[int, int]]:
    return sorted((proposal.peak_bytes, proposal.time) for proposal in found)


def test_pools_count_no_tensors_that_are_not_there() -> None:
    graph = pooled_pairs(2)
    parts = assign(graph, HOST)
    _, found = searched(parts, Options(max_stripe=4))
    order = tuple(range(len(parts.parts)))
    every = points(Judge(graph), order, 4, lambda k: MODEL.call_cycles(parts.parts[k]))
    assert frontier_of(found) == efficient(every)


@cache
def mobilenet() -> tuple[PlacedPoint, ...]:
    graph = simplify(read(MOBILENET.model))
    frontier = schedule(assign_engines(graph, MOBILENET), HOST, MOBILENET.options)
    return place(frontier, HOST, MOBILENET.options)


def test_a_shrinking_budget_never_raises_the_need() -> None:
    least, most = (mobilenet()[k].ram_bytes(MOBILENET) for k in (0, -1))
    budgets = [most - (most - least) * k // 49 for k in range(50)]
    before = None
    for budget in budgets:
        request = Request(MOBILENET.model, HOST, sram_bytes=budget)
        chosen = choose(mobilenet(), request)
        assert chosen.ram_bytes(request) <= budget
        if before is not None:
            assert chosen.ram_bytes(request) <= before.ram_bytes(request)
            assert chosen.schedule.cost.cycles >= before.schedule.cost.cycles
        before = chosen
    with pytest.raises(CapacityError, match=f"needs {least} bytes"):
        choose(mobilenet(), Request(MOBILENET.model, HOST, sram_bytes=least - 1))


def branches(count: int) -> Graph:
    """Two blocks, each with `count` branches of two convolutions and their sum."""
    net = GraphBuilder("branches")
    x = net.input((1, 32, 32, 8))
    for turn in range(2):
        ends: list[Value] = []
        for k in range(count):
            y = net.conv2d(x, 8, 3, name=f"branch{turn}/{k}a")
            ends.append(net.conv2d(y, 8, 3, name=f"branch{turn}/{k}b"))
        x = ends[0]
        for end in ends[1:]:
            x = net.add(x, end, name=f"{end.name}/sum")
    return net.build(x)


def test_the_work_grows_mildly_with_branches() -> None:
    four, six = (searched(assign(branches(n), HOST), Options())[0].calls for n in (4, 6))
    assert four < 500_000
    assert six < 4 * four  # 34 parts, not 22: 2.4 times as many intervals, and longer ones


@pytest.mark.parametrize("model", ["zoo:mobilenet_v1", "zoo:mobilenet_v2"])
def test_giving_up_for_shorter_cascades_pays_and_changes_nothing(model: str) -> None:
    parts = parts_in(model)
    (pruned, found), (exhaustive, every) = (
        searched(parts, Options(prune_by_shorter=prune)) for prune in (True, False)
    )
    assert frontier_of(found) == frontier_of(every)
    assert pruned.calls < exhaustive.calls / 2


def test_fewer_parts_in_a_cascade_are_less_work() -> None:
    parts = parts_in("zoo:mobilenet_v2")
    few, many = (searched(parts, Options(max_parts=most))[0].calls for most in (8, 64))
    assert few < many / 2


def test_where_no_part_has_a_choice_what_to_ask_for_nothing_is_searched_twice() -> None:
    search, _ = searched(assign(pooled_pairs(2), HOST), Options())
    assert not any(
        valued.plan.nearest_first
        for upper in range(1, 7)
        for valued in search.candidates(upper, [])
    )


RUNS = ((0, 1), (1, 2), (2, 1), (3, 2), (4, 1))
"""Seeds of hashes, and workers."""


@pytest.mark.parametrize(
    ("model", "sram", "runs"),
    [
        ("zoo:resnet8", "14KiB", RUNS[:2]),
        pytest.param("zoo:resnet8", "14KiB", RUNS, marks=pytest.mark.long),
        pytest.param("mobilenetv2_160_035", "90KiB", RUNS, marks=pytest.mark.long),
    ],
)
def test_bundles_do_not_depend_on_hash_seed_and_workers(
    tmp_path: Path, model: str, sram: str, runs: tuple[tuple[int, int], ...]
) -> None:
    first, *others = (
        bundle(path_of(model), sram, tmp_path / str(seed), seed, workers) for seed, workers in runs
    )
    assert any(b"for (" in content for name, content in first.items() if name.endswith(".c"))
    assert all(other == first for other in others)


def bundle(model: str, sram: str, folder: Path, seed: int, workers: int) -> dict[str, bytes]:
    """Names and contents of the files that a process with this seed of hashes writes, with so many
    workers."""
    words = ("compile", model, "--target", "cortex-m4", "--sram", sram, "-o", str(folder))
    words += ("--workers", str(workers))
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    command = (sys.executable, "-m", "penstock", *words)
    subprocess.run(command, env=environment, check=True, capture_output=True)
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
