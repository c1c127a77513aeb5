"""Schedules that are stated at random compile exactly, with the stripes and costs that they state.

`pytest --long` draws 1000 schedules instead of 8.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from lowered import inputs_of_graph
from penstock import cascader
from penstock.cascader import BufferMode, Cascade
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph
from penstock.simulators.graph import run_graph
from penstock.simulators.machine import Machine

SCHEDULES, SCHEDULES_LONG = 8, 1000
INNER_MODES = (BufferMode.ROLLING, BufferMode.RECOMPUTE)


def network(draw: random.Random) -> Graph:
    """A chain of convolutions of several images, pools and sums."""
    net = GraphBuilder("net", seed=draw.randrange(1000))
    x = net.input((draw.randint(1, 3), draw.randint(3, 9), draw.randint(3, 9), draw.randint(1, 4)))
    for k in range(draw.randint(2, 5)):
        kind, channels, stride = draw.random(), draw.randint(1, 6), draw.choice((1, 1, 2))
        if kind < 0.25:
            x = net.depthwise_conv2d(x, 3, name=f"depthwise{k}")
        elif kind < 0.4 and min(x.type.shape[1:3]) > 1:
            x = net.max_pool2d(x, 2, 1, name=f"pool{k}")
        elif kind < 0.6:
            inner = net.conv2d(x, x.type.shape[3], 3, name=f"inner{k}")
            x = net.add(x, inner, name=f"sum{k}")
        else:
            x = net.conv2d(x, channels, draw.choice((1, 3)), stride, name=f"conv{k}")
    return net.build(x)


def cascades(draw: random.Random, parts: cascader.Parts) -> Iterator[Cascade]:
    """Cascades of consecutive parts; a tensor that several parts read begins or ends one."""
    names = [part.name for part in parts.parts]
    readers = {name: len(found) for name, found in parts.graph.consumers().items()}
    waiting: list[str] = []
    for part, name in zip(parts.parts, names, strict=True):
        waiting.append(name)
        if readers.get(name, 0) == 1 and draw.random() < 0.6:
            continue
        yield cascade(draw, waiting, part.output.type.shape)
        waiting = []


def cascade(draw: random.Random, names: Sequence[str], shape: Sequence[int]) -> Cascade:
    stripe = tuple(n if draw.random() < 0.4 else draw.randint(1, n) for n in shape)
    divided = [axis for axis in range(len(shape)) if stripe[axis] < shape[axis]]
    draw.shuffle(divided)
    modes = {name: draw.choice(INNER_MODES) for name in names[:-1]}
    if draw.random() < 0.3:  # as the plans of the search are
        modes = dict.fromkeys(modes, draw.choice(INNER_MODES))
    return Cascade(tuple(names), stripe, loops=tuple(divided), modes=modes)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    count = SCHEDULES_LONG if metafunc.config.getoption("long") else SCHEDULES
    metafunc.parametrize("seed", range(count))


def test_a_stated_schedule_computes_the_network_in_its_stripes(seed: int) -> None:
    draw = random.Random(seed)
    graph = network(draw)
    parts = cascader.parts(graph)
    stated = [*cascades(draw, parts)]
    schedule = cascader.make_schedule(parts, stated)
    machine = Machine(cascader.program(schedule))
    inputs = inputs_of_graph(graph, seed)
    expected = run_graph(graph, inputs)
    for name, elements in machine.run(inputs).items():
        np.testing.assert_array_equal(elements, expected[name])
    counts, cost = machine.counts, schedule.cost
    assert counts.macs == cost.macs
    assert {m: n for m, n in counts.read_bytes.items() if n} == dict(cost.read_bytes)
    assert {m: n for m, n in counts.written_bytes.items() if n} == dict(cost.written_bytes)
    configs = {config.tensor: config for config in cascader.tensor_configs(schedule)}
    assert configs.keys() == {part.name for part in parts.parts}
    for one in stated:
        output = configs[one.parts[-1]]
        shape = graph.producers()[one.parts[-1]].output.type.shape
        covered, sizes = np.zeros(shape, np.int64), one.stripe
        assert isinstance(sizes, tuple)
        for region in output.regions():
            assert all(n <= most for n, most in zip(region.shape, sizes, strict=True))
            covered[region.slices] += 1
        assert (covered == 1).all()
        for name in one.parts[:-1]:
            computed = Counter(configs[name].regions())
            if one.modes[name] is BufferMode.ROLLING:
                elements = sum(region.elements * n for region, n in computed.items())
                assert elements <= np.prod(graph.producers()[name].output.type.shape)
