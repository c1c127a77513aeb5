"""Boards with any memories, in any order: what a greedy placement fits, the compiler fits.

`pytest --long` draws 150 boards instead of 8.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from boards import FLASH, BoardMemory, board
from lowered import Lowered, assert_equal_to_graph
from penstock import api
from penstock.codegen.c_program import c_sources
from penstock.errors import CapacityError
from penstock.execution import unpacked
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph
from penstock.pareto import NOTICED
from penstock.pipeline.compilation import compile_graph
from penstock.scheduling.model.schedule import Schedule

BOARDS, BOARDS_LONG = 8, 150
NEIGHBOURS = 3
FOUND = (73,)
"""A network whose scratch memory is in a region that does not count towards the budget."""
ALIGNMENT = 16
STACK = 1024


def network(draw: random.Random) -> Graph:
    """A chain of convolutions, with a residual here and there."""
    net = GraphBuilder("net", seed=draw.randrange(1000))
    x = net.input((1, draw.randint(4, 12), draw.randint(3, 9), draw.randint(1, 4)))
    for k in range(draw.randint(2, 5)):
        channels, stride = draw.choice((2, 4, 8, 12)), draw.choice((1, 1, 2))
        if draw.random() < 0.3:
            x = net.depthwise_conv2d(x, 3, name=f"depthwise{k}")
        elif draw.random() < 0.3:
            inner = net.conv2d(x, x.type.shape[3], 3, name=f"inner{k}")
            x = net.add(x, inner, name=f"sum{k}")
        else:
            x = net.conv2d(x, channels, draw.choice((1, 3)), stride, name=f"conv{k}")
    return net.build(x)


@dataclass(frozen=True, slots=True)
class LiveTensor:
    name: str
    size: int
    born: int
    dead: int


def live_tensors(graph: Graph) -> Iterator[LiveTensor]:
    """Whole tensors, in the order of the model: tick 0 is before the first node."""
    last = {v.name: len(graph.nodes) + 1 for v in graph.outputs}
    for tick, node in enumerate(graph.nodes, 1):
        for value in node.variable_inputs:
            last.setdefault(value.name, tick)
            last[value.name] = max(last[value.name], tick)
    born = {v.name: 0 for v in graph.inputs} | {n.name: k for k, n in enumerate(graph.nodes, 1)}
    for value in (*graph.inputs, *(node.output for node in graph.nodes)):
        size = -(-value.type.size_bytes // ALIGNMENT) * ALIGNMENT
        yield LiveTensor(value.name, size, born[value.name], last[value.name])


def greedy(graph: Graph, memories: Sequence[BoardMemory]) -> Mapping[str, int] | None:
    """The bytes of each memory if whole layers run in the model's order, first fit; or None."""
    ends = {value.name for value in (*graph.inputs, *graph.outputs)}
    tensors = sorted(live_tensors(graph), key=lambda t: (t.name not in ends, -t.size))
    placed: dict[str, list[tuple[LiveTensor, int]]] = {m.name: [] for m in memories}
    for tensor in tensors:
        for memory in memories[:1] if tensor.name in ends else memories:
            held = placed[memory.name]
            rivals = [(o, t.size) for t, o in held if t.born <= tensor.dead >= t.born
                      and tensor.born <= t.dead]  # fmt: skip
            offset = 0
            for begin, size in sorted(rivals):
                if offset + tensor.size <= begin:
                    break
                offset = max(offset, begin + size)
            if offset + tensor.size <= memory.size:
                held.append((tensor, offset))
                break
        else:
            return None
    return {name: max((o + t.size for t, o in held), default=0) for name, held in placed.items()}


def memories(draw: random.Random, graph: Graph) -> list[BoardMemory]:
    """Memories about as large as the tensors of a graph."""
    total = sum(tensor.size for tensor in live_tensors(graph))
    return [
        BoardMemory(
            f"m{k}",
            max(16, int(total * draw.uniform(0.1, 1.2))) + (STACK if k == 0 else 0),
            bandwidth=draw.choice((0.5, 1, 2, 4, 8)),
            latency=draw.choice((0, 1, 4, 20)),
            burst=draw.choice((1, 1, 8, 32)),
            budget=draw.random() < 0.7,
        )
        for k in range(draw.randint(1, 4))
    ]


def fits(graph: Graph, found: Sequence[BoardMemory]) -> bool:
    """Whether the greedy placement fits, the stack included in the memories that count."""
    used = greedy(graph, found)
    counted = [memory for memory in found if memory.budget]
    if used is None:
        return False
    return not counted or STACK + sum(used[m.name] for m in counted) <= sum(m.size for m in counted)


def placed_bytes(sources: Path, names: Sequence[str]) -> Mapping[str, int]:
    """The bytes of the arrays that hold tensors, as a linker sees them, by name of the array."""
    found: dict[str, int] = {}
    for name in names:
        built = sources / f"{name}.o"
        command = ["gcc", "-c", f"-I{sources}", str(sources / name), "-o", str(built)]
        subprocess.run(command, check=True)
        symbols = subprocess.run(["nm", "-S", str(built)], check=True, capture_output=True)
        for line in symbols.stdout.decode().splitlines():
            fields = line.split()
            if len(fields) == 4 and fields[2] in "BbCD":
                found[fields[3]] = int(fields[1], 16)
    return found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        is_long = metafunc.config.getoption("long")
        by_default = NEIGHBOURS if "neighbouring" in metafunc.function.__name__ else BOARDS
        seeds = range(BOARDS_LONG) if is_long else (*range(by_default), *FOUND)
        metafunc.parametrize("seed", seeds)


def test_what_a_greedy_placement_fits_compiles_exactly(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    graph = network(draw)
    found = memories(draw, graph)
    while not fits(graph, found):
        found = memories(draw, graph)
    every = [*found]
    every.insert(draw.randint(0, len(every)), FLASH)
    path = board(tmp_path, *every, kernels=draw.choice(("dsp", "portable")))
    done = compile_graph(graph, api.request(graph, path))
    lowered = Lowered.of(done)
    counts, cost = assert_equal_to_graph(lowered, seed).counts, done.schedule.cost
    assert counts.macs == cost.macs
    assert {m: n for m, n in counts.read_bytes.items() if n} == dict(cost.read_bytes)
    assert {m: n for m, n in counts.written_bytes.items() if n} == dict(cost.written_bytes)
    sizes = {m.name: m.size for m in found}
    assert all(used <= sizes[name] for name, used in done.point.used_bytes)
    report = api.compile(done.request).report if seed < 3 else None
    with unpacked(done.bundle) as folder:
        arrays = placed_bytes(folder, [n for n in c_sources(done.prefix) if "arena" in n])
    assert sorted(arrays.values()) == sorted(n for _, n in done.point.used_bytes if n)
    if report is not None:
        assert dict(report.memory_bytes) == dict(done.point.used_bytes)


def neighbour(draw: random.Random, found: Sequence[BoardMemory]) -> list[BoardMemory]:
    """The memories with one figure of one of them changed."""
    k = draw.randrange(len(found))
    old = found[k]
    changed = draw.choice(
        (
            replace(old, size=max(16, int(old.size * draw.choice((0.9, 1.1, 1.3))))),
            replace(old, bandwidth=old.bandwidth * draw.choice((0.5, 2))),
            replace(old, latency=old.latency + draw.choice((1, 3))),
            replace(old, burst=draw.choice((1, 16))),
        )
    )
    return [*found[:k], changed, *found[k + 1 :]]


def test_no_schedule_of_a_neighbouring_board_is_faster(seed: int, tmp_path: Path) -> None:
    """Except for what the search takes for equally fast (`selection.NOTICED`)."""
    draw = random.Random(seed)
    graph = network(draw)
    found = memories(draw, graph)
    while not fits(graph, found):
        found = memories(draw, graph)
    other = neighbour(draw, found)
    if not fits(graph, other):
        other = found
    kernels = draw.choice(("dsp", "portable"))

    def compiled(memories: Sequence[BoardMemory], schedule: Schedule | None) -> Schedule:
        path = board(tmp_path, *memories, FLASH, kernels=kernels)
        wanted = api.request(graph, path, optimize="speed", schedule=schedule)
        return compile_graph(graph, wanted).schedule

    best = compiled(found, None)
    rival = compiled(other, None)
    try:
        again = compiled(found, rival)
    except CapacityError:
        return  # the other memories are larger
    assert best.cost.cycles <= again.cost.cycles * (1 + NOTICED)
