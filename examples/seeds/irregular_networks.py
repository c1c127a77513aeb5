"""Seed: Zheng et al., TCAD 39(11), 2020. Partitions, orders and executes irregular networks."""

from __future__ import annotations

from time import perf_counter

from benchmarks.compiled_partition import engine_cycles
from benchmarks.graph_groups import graph_problem
from benchmarks.traffic import GroupLimits, Traffic, certificate, proven, weight_bytes
from examples.seeds.page import Absence, absences, figure, heading
from penstock import api, ladder
from penstock.backends.discovery import open_accelerators
from penstock.errors import CapacityError
from penstock.frontends.builder import GraphBuilder
from penstock.hardware.load import load_target
from penstock.ir.graph import Graph
from penstock.pipeline.compilation import Compilation, compile_graph
from penstock.pipeline.request import Request
from penstock.scheduling.grouping.inside import ORDERS_INSIDE
from penstock.scheduling.grouping.problem import ordered_grouping
from penstock.scheduling.grouping.search import intervals
from penstock.scheduling.grouping.strategies import DEFAULTS, STRATEGIES, orders
from penstock.scheduling.options import BYTES, Options
from penstock.zoo.registry import zoo_networks

CELLS, TILED_CELLS, MANY_CELLS = 3, 2, 120
RUNS = (("layer", "best", "80k"), ("paper", "trace_back", "80k"), ("best", "best", "80k"),
        ("paper", "trace_back", "56k"), ("best", "best", "56k"))  # fmt: skip
"""Strategy, order inside groups, and size of CVSRAM."""

INTRODUCTION = """\
The paper fuses layers of networks with branches on CNN accelerators. It orders the nodes by depth
and divides that order into groups by dynamic programming (4.2), orders the nodes of a group by
tracing back what blocks a tensor, and assigns bank groups to tensors (4.3). It claims up to 87 %
faster inference than earlier partitions, a loss of up to 52 % if the size of groups is limited, and
differences of up to 50 % between orders. In penstock, `--partition paper --inside trace_back` is
its strategy. `best` is a search whose result is never worse; it prints a bound on its distance from
the optimum. Of what a strategy finds, the schedule of least RAM within 1 % of the fastest is
compiled, so cycles may differ by that. The paper's networks and buffer sizes are not published, so
we cannot reproduce the figure of 87 %. In the tables, the column `seed` is the method that the line
names, which is the paper's or a simpler one that it compares with, and `penstock` is `best`. All
are penstock's own implementations; bytes and cycles are those of its cost model, and its reference
machine executes what it compiles."""


def no_pnasnet() -> bool:
    """Whether the zoo lacks one of the paper's six networks."""
    return not any("pnasnet" in network.name for network in zoo_networks())


ABSENT = (Absence("PNASNet, one of the paper's six networks, in the zoo.", no_pnasnet),)


def shortcut(extent: int) -> Graph:
    """Build a residual block whose wide projection is computed early and used late."""
    net = GraphBuilder("shortcut")
    x = net.input((1, extent, extent, 32))
    wide, y = net.conv2d(x, 256, 1, name="projection"), x
    for k in range(1, 5):
        y = net.conv2d(y, 32, 3, activation="relu", name=f"main{k}")
    y = net.conv2d(y, 256, 1, name="main5")
    return net.build(net.conv2d(net.add(wide, y, activation="relu", name="add"), 32, 1))


def irregular(cells: int, extent: int, channels: int) -> Graph:
    """Build cells of four branches, each of which widens and then narrows."""
    net = GraphBuilder("irregular")
    x = net.input((1, extent, extent, channels))
    for _ in range(cells):
        wide = [net.conv2d(x, 8 * (k + 1), 1, activation="relu") for k in range(4)]
        narrow = [net.conv2d(w, channels, 3) for w in wide]
        x = net.add(net.add(narrow[0], narrow[1]), net.add(narrow[2], narrow[3]))
    return net.build(x)


def main() -> None:
    print(INTRODUCTION)
    print_partition()
    print_orders()
    print_many_layers()
    print_executed()
    print_tiles()
    absences(ABSENT)


def print_partition() -> None:
    """Group the residual block by every strategy, with room for half of its weights."""
    graph = shortcut(28)
    problem = graph_problem(graph)
    later = [0, *range(4, len(problem.nodes))]  # the projection, and what follows main3
    cost = Traffic(problem, GroupLimits(weight_bytes(problem, sum(1 << k for k in later))))
    found = {name: strategy(cost, DEFAULTS) for name, strategy in STRATEGIES.items()}
    best, order = proven(cost), orders(problem)["asap"]
    found["bounded"] = ordered_grouping(intervals(order, cost, most=4), cost)
    heading("bytes moved by a residual block of 28x28, 32 -> 256")
    for name, words in (("layer", "layer by layer"), ("bounded", "groups of at most 4 nodes"),
                        ("paper", "the paper's partition")):  # fmt: skip
        figure(words, found[name].cost, best.cost)
    print(f"  certificate of `best`: {certificate(best)}; of the paper's partition, none")
    heading("cycles of that block, compiled for NVDLA")
    for config in ("small", "large"):
        cycles = {
            name: engine_cycles(
                compiled(graph, f"config={config}", Options(partition=name)).schedule
            )
            for name in ("layer", "paper", "best")
        }
        for name in ("layer", "paper"):
            figure(f"{config}, {name}", cycles[name], cycles["best"])


def print_orders() -> None:
    """Compare the peak of live bytes of several orders of one large group."""
    problem = graph_problem(irregular(CELLS, 14, 8))
    peaks = {
        name: order(problem, problem.everything, 20_000).peak_bytes
        for name, order in ORDERS_INSIDE.items()
    }
    heading(f"peak bytes of {CELLS} cells of four branches as one group")
    for name in ("bfs", "dfs", "trace_back", "circular"):
        figure(name, peaks[name], peaks["best"])


def print_many_layers() -> None:
    """Partition a network of more than 1,000 layers."""
    problem = graph_problem(irregular(MANY_CELLS, 4, 4))
    cost = Traffic(problem, GroupLimits(max(8, weight_bytes(problem, problem.everything) // 100)))
    begun = perf_counter()
    best = proven(cost)
    seconds = perf_counter() - begun
    heading(f"{len(problem.nodes):,} layers (the paper: in a few minutes)")
    figure("bytes moved", STRATEGIES["paper"](cost, DEFAULTS).cost, best.cost)
    figure("seconds of `best`, on this machine", None, seconds, digits=1)
    print(f"  certificate: {certificate(best)}")


def print_executed() -> None:
    """Compile a network of cells for NVDLA with each strategy, and execute its streams."""
    graph = irregular(CELLS, 14, 8)
    print(f"\n{CELLS} cells on NVDLA `large` in fewest cycles, executed from register streams:")
    for partition, inside, size in RUNS:
        words = f"  {partition:6} {inside:11} CVSRAM {size:4}"
        try:
            options = Options(partition=partition, inside=inside, tiles=False)
            attributes = f"config=large,cvsram={size}"
            print(f"{words} {executed(graph, attributes, options)}")
        except CapacityError as error:
            print(f"{words} refused: {error.what}")


def print_tiles() -> None:
    """Compile a network of cells for fewest bytes, without and with tiles and bank groups."""
    graph = irregular(TILED_CELLS, 28, 8)
    words = "in fewest bytes, in tiles (5.2), one tensor per bank group (4.3)"
    print(f"\n{TILED_CELLS} larger cells {words}:")
    for tiles, banked in ((False, False), (True, False), (True, True)):
        options = Options(partition="best", objective=BYTES, tiles=tiles)
        found = executed(graph, f"config=large,cvsram=64k,banked={banked}", options)
        print(f"  tiles {tiles!s:5}  bank groups {banked!s:5} {found}")


def executed(graph: Graph, attributes: str, options: Options) -> str:
    """Return cycles of the engine, bytes to and from main memory, and the comparison
    with the reference.  `options.objective` is the one of the two that the strategy minimises."""
    done = compiled(graph, attributes, options)
    found = next(ladder.climb(done, ladder.Truth(), api.drawn_sets(done, 1))).compared
    moved = done.schedule.external_bytes
    costs = f"{engine_cycles(done.schedule):9,} cycles, {moved:9,} bytes"
    return f"{costs}, {found.mismatches} of {found.elements:,} elements differ"


def compiled(graph: Graph, attributes: str, options: Options) -> Compilation:
    """Return a network compiled for NVDLA beside the host."""
    host = load_target("host")
    nvdla = open_accelerators((f"nvdla:{attributes}",), host)
    chip = host.beside(memory for one in nvdla for memory in one.arenas)
    request = Request("zoo:irregular", chip, accelerators=nvdla, options=options)
    return compile_graph(graph, request)


if __name__ == "__main__":
    main()
