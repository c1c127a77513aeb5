"""smv: comparisons, extremes, softmax, products of two tensors and grouped convolutions, on every
rung and in tiles of both tilers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from benchmarks.smaug_cases import recorded_layers
from drawn_tilers import DrawnTiler
from offloading import assert_exact, claimed, compiled
from penstock.frontends.builder import GraphBuilder
from penstock.hardware.load import load_target
from penstock.ir.graph import Graph, Value
from penstock.ir.tensor import Quantisation
from penstock.ops.binary import Maximum
from penstock.ops.comparisons import Compare, Relation
from penstock.pipeline.compilation import compile_graph
from penstock.pipeline.request import Request
from penstock.scheduling.options import Options
from penstock.tiling.sequence import TileSequence
from penstock.uma import Offloaded
from penstock_smv import Smv
from penstock_smv.tiling import tiling_of

SMALL = "input_bytes=1024,weights_bytes=2048,output_bytes=1024"
TILERS = (SMALL, f"tiler=smaug,{SMALL}")
Q = Quantisation((0.02,), (3,))


def relations(net: GraphBuilder) -> tuple[Value, ...]:
    a = net.input((1, 11, 9, 10), name="a")
    b = net.input((1, 11, 9, 10), scale=0.006, zero_point=20, name="b")
    constants = net.constant(np.arange(-20, 80, 10, dtype=np.int8), Q, "constants")
    return (
        *(net.apply(Compare(relation), a, b) for relation in Relation),
        net.apply(Compare(Relation.LESS), constants, a),
        net.apply(Compare(Relation.GREATER), b, constants),
    )


def extremes(net: GraphBuilder) -> tuple[Value, ...]:
    a = net.input((1, 11, 9, 10), name="a")
    b = net.input((1, 11, 9, 10), name="b")
    like = a.type.quantisation
    constants = net.constant(np.arange(-20, 80, 10, dtype=np.int8), like, "constants")
    most = net.maximum(a, b)
    return (most, net.minimum(most, b), net.apply(Maximum(), constants, a, quantisation=like))


def softmax(net: GraphBuilder) -> tuple[Value, ...]:
    x = net.input((1, 11, 9, 10), scale=0.1)
    return net.softmax(x), net.softmax(net.input((40, 33), scale=0.05, name="rows"), beta=0.7)


def groups(net: GraphBuilder) -> tuple[Value, ...]:
    """Groups of 3 and 8 outputs, of 8 and 2 channels; two images."""
    x = net.input((1, 9, 7, 32))
    batch = net.input((2, 5, 6, 8), name="batch")
    return (
        net.conv2d(x, 12, 3, groups=4, stride=(1, 2)),
        net.conv2d(x, 16, 1, groups=2, activation="relu"),
        net.conv2d(batch, 32, 3, groups=4),
    )


def products(net: GraphBuilder) -> tuple[Value, ...]:
    """Matrices of rank 3 and 4, transposed or not."""
    a, b = net.input((3, 10, 24), name="a"), net.input((3, 24, 20), scale=0.01, name="b")
    c, d = net.input((2, 3, 12, 40), name="c"), net.input((2, 3, 17, 40), name="d")
    once = net.matmul(a, b)
    return (
        net.matmul(once, b, b_transposed=True),
        net.matmul(a, once, a_transposed=True),
        net.matmul(c, d, b_transposed=True),
    )


def joined(net: GraphBuilder) -> tuple[Value, ...]:
    """Three tensors along columns and channels; images, and vectors."""
    a, b = net.input((1, 9, 7, 24), name="a"), net.input((1, 9, 7, 24), name="b")
    c, d = net.input((2, 5, 6, 16), name="c"), net.input((2, 5, 6, 3), name="d")
    e, f = net.input((30, 50), name="e"), net.input((30, 7), name="f")
    along = [net.concatenate([a, b, net.relu(a)], axis=axis) for axis in (2, 3)]
    return (*along, net.concatenate([c, d]), net.concatenate([e, f]))


@pytest.mark.parametrize("network", [groups, products, joined])
@pytest.mark.parametrize("more", ["", ",engines=2", ",double_buffering=true"])
def test_grouped_convolutions_and_products_equal_the_operators(
    network: Callable[[GraphBuilder], tuple[Value, ...]], more: str
) -> None:
    net = GraphBuilder(network.__name__)
    done = compiled(net.build(*network(net)), f"smv:{SMALL}{more}")
    assert not done.parts.cpu_fallbacks
    assert max(tiles(done.graph, SMALL).values()) > 1
    assert_exact(done, "host" if not more else "machine")


def test_smaug_has_no_rule_for_groups_and_products_of_stacked_matrices() -> None:
    for network in (groups, products):
        net = GraphBuilder(network.__name__)
        done = compiled(net.build(*network(net)), "smv:tiler=smaug")
        assert "SMAUG has no rule" in done.parts.cpu_fallbacks[0].reason


def test_tiles_without_a_part_of_some_inputs_are_exact() -> None:
    """Whatever the tiles: most hold channels of one input alone."""
    net = GraphBuilder("parts")
    xs = [net.input((1, 6, 5, count), name=f"x{count}") for count in (3, 9, 17)]
    graph, smv, host = net.build(net.concatenate(xs)), Smv(), load_target("host")
    for seed in range(6):
        smv._register_tiler("concatenate", DrawnTiler(seed))
        request = Request("zoo:parts", host, accelerators=(smv.accelerator({}, host),))
        assert_exact(compile_graph(graph, request), "host")


@pytest.mark.parametrize("axis", [0, 1])
def test_images_and_rows_are_not_joined_on_the_engine(axis: int) -> None:
    net = GraphBuilder("rows")
    a, b = net.input((2, 5, 6, 8), name="a"), net.input((2, 5, 6, 8), name="b")
    (left,) = compiled(net.build(net.concatenate([a, b], axis=axis)), "smv").parts.cpu_fallbacks
    assert "rows are joined" in left.reason


def test_matrices_are_not_broadcast_on_the_engine() -> None:
    net = GraphBuilder("broadcast")
    product = net.matmul(net.input((4, 3, 8), name="a"), net.input((1, 8, 5), name="b"))
    (left,) = compiled(net.build(product), "smv").parts.cpu_fallbacks
    assert "one is broadcast" in left.reason


@pytest.mark.parametrize("attributes", TILERS)
@pytest.mark.parametrize("network", [relations, extremes, softmax])
def test_every_rung_equals_the_operators(
    network: Callable[[GraphBuilder], tuple[Value, ...]], attributes: str
) -> None:
    net = GraphBuilder(network.__name__)
    done = compiled(net.build(*network(net)), f"smv:{attributes}")
    assert not done.parts.cpu_fallbacks
    assert len(claimed(done.graph)) == len(done.graph.nodes)
    assert max(tiles(done.graph, attributes).values()) > 1
    assert_exact(done, "host")


def tiles(graph: Graph, attributes: str) -> dict[str, int]:
    """The number of tiles of each layer on the engine."""
    target = Smv().accelerator(dict(pair.split("=") for pair in attributes.split(","))).target
    found: dict[str, int] = {}
    for name, node in claimed(graph).items():
        tiling = tiling_of(Offloaded(node, target))
        assert not isinstance(tiling, TileSequence)
        found[name] = tiling.count
    return found


@pytest.mark.parametrize("width", [7, 1000])
def test_a_softmax_is_split_along_its_vectors_alone(width: int) -> None:
    """Each vector is whole: as many as the scratchpad holds."""
    net = GraphBuilder("softmax")
    graph = net.build(net.softmax(net.input((60, width), scale=0.1)))
    done = compiled(graph, "smv:tiler=smaug,input_bytes=4096,output_bytes=4096")
    (node,) = done.graph.nodes
    found = tiling_of(Offloaded(node, done.request.accelerators[0].target))
    room = -(-width // 8) * 8
    assert next(b - a for a, b in found.tiles["n"]) == min(60, 4096 // room)
    assert len(found.tiles["c"]) == 1
    assert_exact(done, "machine")


def test_vectors_of_a_softmax_are_split_as_smaug_splits_them() -> None:
    compared = 0
    for layer, expected in recorded_layers("softmax"):
        size, rows, width = map(int, layer.split()[1:])
        net = GraphBuilder("softmax")
        graph = net.build(net.softmax(net.input((rows, width), scale=0.1)))
        sizes = f"input_bytes={size},output_bytes={size}"
        done = compiled(graph, f"smv:tiler=smaug,{sizes}", options=Options(max_parts=1))
        if expected == "refused":
            assert done.parts.cpu_fallbacks, layer
            continue
        (node,) = done.graph.nodes
        found = tiling_of(Offloaded(node, done.request.accelerators[0].target))
        lengths = [b - a for a, b in found.tiles["n"]]
        runs = [f"{lengths.count(n)}*{n}x{width}" for n in dict.fromkeys(lengths)]
        assert " ".join(runs) == expected, layer
        compared += 1
    assert compared > 20
