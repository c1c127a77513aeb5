"""Law of bands: the graphs of all bands together compute the tensor, column by column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from found import few
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph, Value
from penstock.ir.tensor import COLUMNS
from penstock.ops.slice import Slice
from penstock.passes.column_bands import BandGraph, column_bands
from penstock.simulators.graph import run_graph
from strategies import seeds


@st.composite
def chains(draw: st.DrawFn) -> Graph:
    """Convolutions, pools and residual additions on an image of a few columns."""
    net = GraphBuilder("chain")
    height, width = draw(st.integers(3, 6)), draw(st.integers(4, 14))
    x = net.input((1, height, width, draw(st.integers(1, 3))))
    for _ in range(draw(st.integers(1, 5))):
        x = _layer(draw, net, x)
    return net.build(x)


def _layer(draw: st.DrawFn, net: GraphBuilder, x: Value) -> Value:
    channels = x.type.shape[3]
    stride = (1, draw(st.sampled_from((1, 1, 2))))
    match draw(st.sampled_from(("conv", "depthwise", "pool", "residual"))):
        case "conv":
            kernel = (3, draw(st.sampled_from((1, 3, 4, 5))))
            return net.conv2d(x, draw(st.integers(1, 4)), kernel, stride)
        case "depthwise":
            dilation = (1, draw(st.integers(1, 2)))
            return net.depthwise_conv2d(x, 3, dilation=dilation)
        case "pool":
            return net.max_pool2d(x, (2, draw(st.integers(1, 3))), stride, padding="same")
        case _:
            return net.add(x, net.conv2d(x, channels, 3))


def _section(elements: np.ndarray, first: int, width: int) -> np.ndarray:
    return elements[:, :, first : first + width]


def _columns(value: Value) -> int:
    return value.type.shape[COLUMNS]


def _check(band: BandGraph, known: dict[str, np.ndarray], covered: list[int]) -> None:
    """Compare every value of all bands of a graph with the columns of the tensor that it is."""
    places = list(zip(band.graph.variables(), band.tensors, band.first_columns, strict=True))
    for k in range(band.count):
        firsts = [first + k * step for (_, _, first), step in zip(places, band.steps, strict=True)]
        expected = {
            value.name: _section(known[tensor.name], first, _columns(value))
            for (value, tensor, _), first in zip(places, firsts, strict=True)
        }
        inputs = {value.name: expected[value.name] for value in band.graph.inputs}
        found = run_graph(band.graph, inputs)
        for name, elements in expected.items():
            np.testing.assert_array_equal({**inputs, **found}[name], elements)
        (output,) = band.graph.outputs
        last = [value.name for value, _, _ in places].index(output.name)
        covered += range(firsts[last], firsts[last] + _columns(output))


def _computed(bands: Sequence[BandGraph]) -> Iterator[tuple[str, int]]:
    """The columns that all bands compute, as (tensor, column), without those that are moved."""
    for band in bands:
        moved = {node.name for node in band.graph.nodes if isinstance(node.op, Slice)}
        places = zip(band.tensors, band.first_columns, band.steps, strict=True)
        for value, (tensor, first, step) in zip(band.graph.variables(), places, strict=True):
            if value in band.graph.inputs or value.name in moved | band.uncomputed:
                continue
            for k in range(band.count):
                yield from ((tensor.name, first + k * step + c) for c in range(_columns(value)))


@few
@given(graph=chains(), width=st.integers(1, 6), keeps=st.booleans(), seed=seeds)
def test_all_bands_compute_the_tensor(graph: Graph, width: int, keeps: bool, seed: int) -> None:
    """Bands that keep their halos compute each column of every tensor at most once."""
    (x,), (y,) = graph.inputs, graph.outputs
    bands = column_bands("bands", graph.nodes, width, graph.names(), keeps_halos=keeps)
    assume(bands is not None)
    assert bands is not None
    elements = np.random.default_rng(seed).integers(-128, 128, x.type.shape).astype(np.int8)
    known = {x.name: elements, **run_graph(graph, {x.name: elements})}
    covered: list[int] = []
    for band in bands:
        _check(band, known, covered)
    assert not keeps or max(Counter(_computed(bands)).values()) == 1
    assert covered == list(range(_columns(y)))
    assert sum(band.count for band in bands) == -(-_columns(y) // width)
