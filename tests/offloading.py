"""Graphs compiled for accelerators, as the pipeline compiles models."""

from __future__ import annotations

from lowered import inputs_of_graph
from penstock import ladder, pipeline
from penstock.accelerators.registry import open_accelerators
from penstock.hardware.load import load_target
from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Node
from penstock.pipeline import Compilation, Request
from penstock.scheduling.options import DEFAULTS, Options
from penstock.scheduling.schedule import Frontier
from penstock.scheduling.selection import Optimize


def compiled(
    graph: Graph,
    *accelerators: str,
    target: str = "host",
    options: Options = DEFAULTS,
    sram_bytes: int | None = None,
    optimize: Optimize = Optimize.SPEED,
) -> Compilation:
    """A graph, compiled beside accelerators; by default to its fastest schedule."""
    chip = load_target(target)
    opened = open_accelerators(accelerators, chip)
    chip = chip.beside(memory for one in opened for memory in one.arenas)
    request = Request(
        f"zoo:{graph.name}",
        chip,
        sram_bytes,
        accelerators=opened,
        options=options,
        optimize=optimize,
    )
    return pipeline.compile_graph(graph, request)


def layer_by_layer(done: Compilation) -> Compilation:
    """The compilation with a schedule in which every part computes its whole output at once."""
    found = next(s for s in done.frontier.schedules if all(p.stripe is None for p in s.plans))
    (point,) = pipeline.place(Frontier((found,)), done.request.target, done.request.options)
    return pipeline.with_point(done, point)


def assert_exact(done: Compilation, highest: str = "points") -> None:
    """Every tensor is the reference's, on every rung of the ladder up to the highest: "machine",
    "points" (of the frontier, else only the chosen one is looked at), "host", "core"."""
    sets = [inputs_of_graph(done.model, seed) for seed in (3, 4)]
    for rung in ladder.climb(done, None, sets, every_point=highest == "points"):
        assert rung.comparison.elements > 0
        assert rung.comparison.mismatches == 0, (rung.step, rung.comparison.first)
        if rung.step == highest:
            return
    raise AssertionError(f"there is no rung {highest}")


def claimed(graph: Graph) -> dict[str, Node]:
    """By name, the nodes that accelerators run."""
    return {node.name: node for node in graph.nodes if isinstance(node.op, Composite)}
