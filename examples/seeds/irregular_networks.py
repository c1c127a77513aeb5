"""Seed: scheduling irregular networks (TCAD 2020).  Its figures beside ours of today."""

from __future__ import annotations

from time import perf_counter

from penstock.backends.portable import assign
from penstock.frontends.builder import GraphBuilder
from penstock.hardware.load import load_target
from penstock.ir.graph import Graph
from penstock.scheduling.cascades import order_problem
from penstock.scheduling.order import find_order

CELLS = 120

CLAIMS = """\
The seed, section 1 and 4.1 (facts/smaug-nvdla-irregular.md 4): up to 87 % faster inference by a
partition of the whole DAG; a limit on a group's nodes loses up to 52 %; order and memory
allocation matter as much; networks of more than 1000 layers take minutes.
Its order against the optimum, on random graphs of 10 nodes, as we read it (same file, 5):
    breadth first +20 % of peak memory, depth first +15 %, the seed's trace-back +9.1 %"""

MISSING = """\
Not there yet: groups on an accelerator.  Cascades run on a processor; there is no bank group, no
tile, no profiler of an accelerator, and so nothing to set beside the 87 %.  The order is there:
searched within a bounded number of states, with a proof where the search finishes, and a proven
gap where not."""


def main() -> None:
    print(CLAIMS)
    begun = perf_counter()
    graph = irregular(CELLS)
    built = perf_counter()
    parts = assign(graph, load_target("cortex-m4"))
    found = find_order(order_problem(parts, keep_inputs=False))
    seconds = perf_counter() - built
    print(f"\npenstock today, {CELLS} cells of four branches, {len(parts.parts)} layers:")
    print(f"    file order, breadth first    {found.file_peak_bytes:>7,} bytes at the peak")
    print(f"    order found                  {found.peak_bytes:>7,} bytes, {found.states} states")
    print(f"    proven                       {'optimal' if found.optimal else found.gap}")
    print(f"    seconds, this machine        {seconds:>7.2f}, and {built - begun:.2f} to draw it")
    print(f"\n{MISSING}")


def irregular(cells: int) -> Graph:
    """Cells of branches that widen and narrow; all that is wide stands first in the file."""
    net = GraphBuilder("irregular")
    x = net.input((1, 4, 4, 4))
    for _ in range(cells):
        wide = [net.conv2d(x, 8 * (k + 1), 1, activation="relu") for k in range(4)]
        narrow = [net.conv2d(w, 4, 3) for w in wide]
        x = net.add(net.add(narrow[0], narrow[1]), net.add(narrow[2], narrow[3]))
    return net.build(x)


if __name__ == "__main__":
    main()
