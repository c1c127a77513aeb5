"""Executed traps: networks on which TVM's cascader plans other stripes than its programs have.

    python -m benchmarks.executed_traps

Each trap is a cascade that is scheduled, placed, lowered and executed by the reference machine. The
stripes that the machine counts are compared with those of the schedule (`TensorConfig`) and with
what the trap says. Exits with 1 if they differ.

Source: TVM v0.16, src/contrib/ethosu/cascader. Its plans with rolling buffers recompute when they
are executed, a tensor of two consumers is never inside a plan, and its propagators ignore that an
input is enlarged.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from benchmarks.entry import entry
from benchmarks.executed_cases import Executed, executed
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph
from penstock.ir.tensor import Region
from penstock.ops.resize import ResizeNearest

ROWS = 2
"""Maximum number of rows per stripe."""


def rolling_buffers_compute_every_row_once() -> str:
    """Convolutions whose stripes overlap by two rows each."""
    net = GraphBuilder("rolling")
    x = net.conv2d(net.input((1, 16, 8, 2)), 4, 3, name="first")
    x = net.conv2d(net.depthwise_conv2d(x, 3, name="second"), 4, 3, 2, name="third")
    return computed_once(net.build(x))


def a_tensor_of_two_consumers_is_inside_a_cascade() -> str:
    """A residual connection around a convolution."""
    net = GraphBuilder("residual")
    x = net.conv2d(net.input((1, 12, 6, 2)), 3, 3, name="stem")
    x = net.add(x, net.conv2d(x, 3, 3, name="branch"), name="sum")
    graph = net.build(net.conv2d(x, 2, 1, name="last"))
    done = executed(graph, ROWS, None)
    if max(region.shape[1] for region in done.computed["stem"]) > ROWS:
        return "the tensor of two consumers is computed at once"
    return computed_once(graph, done)


def an_enlarged_input_is_read_in_half_the_rows() -> str:
    """A tensor of 6 rows, enlarged to 12, before a convolution."""
    net = GraphBuilder("enlarged")
    small = net.conv2d(net.input((1, 6, 5, 2)), 2, 1, name="small")
    large = net.apply(
        ResizeNearest(12, 10), small, quantisation=small.type.quantisation, name="large"
    )
    graph = net.build(net.conv2d(large, 2, 3, padding="valid", name="last"))
    done = executed(graph, ROWS, None)
    expected: Counter[tuple[int, int]] = Counter()
    for region, n in done.computed["large"].items():
        lower, upper = region.intervals[1]
        expected[lower // 2, (upper - 1) // 2 + 1] += n
    found = Counter({window.intervals[1]: n for window, n in done.read["small"].items()})
    if found != expected:
        return f"rows {sorted(found)} are read, not {sorted(expected)}"
    return computed_once(graph, done)


def recomputed_columns_are_those_that_bands_share() -> str:
    """A convolution of 3 x 3 in bands of four columns: neighbours share two columns."""
    net = GraphBuilder("bands")
    x = net.conv2d(net.input((1, 6, 14, 2)), 2, 1, name="first")
    graph = net.build(net.conv2d(x, 2, 3, padding="valid", name="last"))
    done = executed(graph, ROWS, 4)
    times = _times(done.computed["first"])
    twice = {column for (_, column), n in times.items() if n == 2}
    if twice != {4, 5, 8, 9} or max(times.values()) > 2:
        return f"the columns {sorted(twice)} are computed twice, not those between bands"
    return ""


TRAPS: tuple[Callable[[], str], ...] = (
    rolling_buffers_compute_every_row_once,
    a_tensor_of_two_consumers_is_inside_a_cascade,
    an_enlarged_input_is_read_in_half_the_rows,
    recomputed_columns_are_those_that_bands_share,
)
"""Functions that execute a trap; the result is the difference, empty if there is none."""


def main(arguments: Sequence[str]) -> int:
    """Prints the outcome of every trap; returns 1 if one differs."""
    argparse.ArgumentParser(prog="python -m benchmarks.executed_traps").parse_args(arguments)
    differences = {trap.__name__.replace("_", " "): trap() for trap in TRAPS}
    for name, difference in differences.items():
        print(f"{name}: {difference or 'holds'}")
    return 1 if any(differences.values()) else 0


def computed_once(graph: Graph, done: Executed | None = None) -> str:
    """Return a difference if an element of a tensor is not computed exactly once.

    done: the executed graph; None: execute it.
    """
    done = done or executed(graph, ROWS, None)
    for node in graph.nodes:
        times = _times(done.computed[node.name])
        _, rows, columns, _ = node.output.type.shape
        if len(times) != rows * columns or set(times.values()) != {1}:
            return f'"{node.name}" is computed {dict(times)} times'
    return ""


def _times(regions: Mapping[Region, int]) -> Counter[tuple[int, int]]:
    """Return how often each pixel (row, column) is computed."""
    found: Counter[tuple[int, int]] = Counter()
    for region, n in regions.items():
        (top, bottom), (left, right) = region.intervals[1:3]
        for row in range(top, bottom):
            for column in range(left, right):
                found[row, column] += n
    return found


if __name__ == "__main__":
    entry(main)
