"""Compiles graphs for accelerators like the pipeline."""

from __future__ import annotations

from lowered import inputs_of_graph
from penstock import ladder
from penstock.backends.discovery import open_accelerators
from penstock.choices import Optimize
from penstock.hardware.load import load_target
from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Node
from penstock.pipeline.compilation import Compilation, compile_graph, with_point
from penstock.pipeline.placing import place
from penstock.pipeline.request import Request
from penstock.scheduling.model.schedule import Frontier
from penstock.scheduling.options import DEFAULTS, Options


def compiled(
    graph: Graph,
    *accelerators: str,
    target: str = "host",
    options: Options = DEFAULTS,
    sram_bytes: int | None = None,
    optimize: Optimize = Optimize.SPEED,
) -> Compilation:
    """A graph compiled beside accelerators, by default with its fastest schedule."""
    chip = load_target(target)
    opened = open_accelerators(accelerators, chip)
    chip = chip.beside(memory for one in opened for memory in one.arenas)
    request = Request(
        f"zoo:{graph.name}",
        chip,
        sram_bytes=sram_bytes,
        accelerators=opened,
        options=options,
        optimize=optimize,
    )
    return compile_graph(graph, request)


def layer_by_layer(done: Compilation) -> Compilation:
    """The compilation with a schedule in which every part computes its whole output at once."""
    found = next(s for s in done.frontier.schedules if all(p.stripe is None for p in s.plans))
    *_, fastest = place(Frontier((found,)), done.request.target, done.request.options)
    return with_point(done, fastest)


def assert_exact(
    done: Compilation, highest: str = "points", *, every_point: bool | None = None
) -> None:
    """Asserts that every tensor equals the reference on every rung up to `highest`.

    Rungs are "machine", "points" (all points of the frontier, not only the chosen one), "host" and
    "core".  By default, "points" is left out unless it is the highest.
    """
    points = highest == "points" if every_point is None else every_point
    sets = [inputs_of_graph(done.model, seed) for seed in (3, 4)]
    for rung in ladder.climb(done, ladder.Truth(), sets, every_point=points):
        assert rung.comparison.elements > 0
        assert rung.comparison.mismatches == 0, (rung.step, rung.comparison.first)
        if rung.step == highest:
            return
    raise AssertionError(f"there is no rung {highest}")


def claimed(graph: Graph) -> dict[str, Node]:
    """Nodes that accelerators run, by name."""
    return {node.name: node for node in graph.nodes if isinstance(node.op, Composite)}
