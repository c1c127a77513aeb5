"""Misuse of the interface for accelerators in Python, and the errors that it raises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import penstock
from examples.uma import phases, regions
from penstock import api
from penstock.backends.accelerator import AcceleratorTarget, PassPhase
from penstock.backends.added_buffers import with_constant, with_scratch
from penstock.backends.call_tiles import CallTiles
from penstock.backends.offloaded import Offloaded
from penstock.backends.operator_names import operator_facts
from penstock.backends.pattern import is_op, wildcard
from penstock.ir.graph import Graph
from penstock.ladder import run_machine
from penstock.program.program import Invoke, Memory, Program
from penstock.tiling.layer import Scratchpads, layer_of
from penstock.tiling.least_traffic import LeastTraffic, LoopOrder
from penstock.tiling.nest import Tiling, choose, innermost_depths
from penstock.tiling.sequence import TileVisit
from penstock_vanilla import Vanilla

LARGE = Scratchpads.shared(4096)


def network() -> penstock.GraphBuilder:
    """One convolution, and nothing built yet."""
    net = penstock.GraphBuilder("net")
    net.conv2d(net.input((1, 4, 4, 1)), 2, 3, name="conv")
    return net


def graph() -> Graph:
    net = penstock.GraphBuilder("net")
    return net.build(net.conv2d(net.input((1, 4, 4, 1)), 2, 3, name="conv"))


def compiled(model: Any, *accelerators: str) -> object:
    return penstock.compile(model, accelerators=accelerators)


def without_commands() -> object:
    """An accelerator whose last pass drops the commands of the network."""

    def nothing(program: Program, target: AcceleratorTarget) -> Program:
        return replace(program, run=())

    request = api.request(graph(), "host", accelerators=("vanilla",))
    passes = ((PassPhase.PROGRAM_PHASE_3, nothing),)
    changed = (replace(request.accelerators[0], program_passes=passes),)
    return penstock.compile(replace(request, accelerators=changed))


def region_without_commands() -> object:
    """An accelerator whose region function forgets the commands."""
    request = api.request(regions.network(), "host", accelerators=())
    accelerator = regions.Pools(stream=False).accelerator()
    codegen = replace(accelerator.codegen, region=lambda calls: ())
    changed = (replace(accelerator, codegen=codegen),)
    return penstock.compile(replace(request, accelerators=changed))


def program() -> Program:
    return Program("net", (Memory("flash", 0, writable=False),), (), (), (), (), ())


def with_large_scratch() -> object:
    """An accelerator whose pass adds more working memory than there is."""

    def large(program: Program, target: AcceleratorTarget) -> Program:
        return with_scratch(program, "rows/room", 1 << 40)[0]

    request = api.request(phases.network(), "cortex-m4", accelerators=())
    accelerator = phases.Rows({PassPhase.PROGRAM_PHASE_2: large}).accelerator()
    return penstock.compile(replace(request, accelerators=(accelerator,)))


class Unregistered(Vanilla):
    target_name = "unregistered"


def with_unknown_cycles() -> object:
    """An accelerator with a driver function that states no cycles, although it has the field."""
    begin = Invoke(replace(phases.BEGIN, cycles=lambda *given: None), (1,))  # type: ignore[arg-type]

    def begun(program: Program, target: AcceleratorTarget) -> Program:
        return phases.each_call(
            program, target, lambda call: replace(call, body=(begin, *call.body))
        )

    request = api.request(phases.network(), "host", accelerators=())
    accelerator = phases.Rows({PassPhase.PROGRAM_PHASE_3: begun}).accelerator()
    done = penstock.compile(replace(request, accelerators=(accelerator,))).compilation
    return run_machine(done, api.drawn_sets(done, 1))


def without_a_selection() -> object:
    """An accelerator that cannot select the instances that the target lists."""
    request = api.request(graph(), "host", accelerators=("vanilla",))
    chip = replace(request.target, instances=(("vanilla", 2),))
    accelerator = Vanilla().accelerator(chip=chip)
    return penstock.compile(replace(request, target=chip, accelerators=(accelerator,)))


def registered_instances(select: Any) -> object:
    backend: Any = Vanilla()
    return backend._register_instances(select)


class Visiting(LeastTraffic):
    """A tiler that also states visits."""

    def visits(self, tiling: Tiling) -> tuple[TileVisit, ...]:
        return (TileVisit({}),)


def spilled_sums() -> object:
    """The loops over tiles of a tiling that stores incomplete sums."""
    net = penstock.GraphBuilder("net")
    node = net.build(net.conv2d(net.input((1, 4, 4, 4)), 2, 1, name="conv")).nodes[0]
    layer, order = layer_of(node.op, node.site, "conv"), ("sum", "n", "h", "w", "c")
    cuts = ((0, 1), (0, 2, 4), (0, 4), (0, 2), (0, 2, 4))
    tiling = Tiling(layer, LARGE, cuts, order, innermost_depths(layer, order))
    call: Any = None
    return CallTiles(call, layer, tiling).nest((), (), ())


WRONG_UMA: dict[str, Callable[[], object]] = {
    "backend-060": lambda: compiled(
        Vanilla().partition(graph(), {"macs_per_cycle": 64}), "vanilla"
    ),
    "backend-061": lambda: compiled(Unregistered().partition(graph())),
    "backend-062": lambda: is_op("add")(wildcard(), wildcard()).has_dtype("int9"),
    "backend-063": lambda: wildcard().has_shape((1, -1)),
    "usage-063": lambda: api.explain_pattern(
        api.request(graph(), "host", accelerators=("vanilla",)), "cnv"
    ),
    "backend-064": without_commands,
    "backend-065": region_without_commands,
    "backend-066": without_a_selection,
    "backend-067": lambda: registered_instances(max),
    "backend-095": with_unknown_cycles,
    "backend-099": spilled_sums,
    "backend-101": lambda: with_constant(program(), "words", np.zeros(3, np.complex64)),
    "capacity-005": with_large_scratch,
    "backend-100": lambda: operator_facts("nn.conv3d", "penstock ops"),
    "backend-102": lambda: Offloaded(graph().nodes[0], Vanilla().accelerator().target).composite,
    "tiling-007": lambda: choose(
        LoopOrder(("h", "k")), layer_of(graph().nodes[0].op, graph().nodes[0].site), LARGE
    ),
    "tiling-010": lambda: choose(
        Visiting(), layer_of(graph().nodes[0].op, graph().nodes[0].site), LARGE
    ),
    "usage-133": lambda: penstock.compile(
        Vanilla().partition(graph()), incremental=1, accelerators=("vanilla",)
    ),
    "usage-061": lambda: compiled(network()),
    "usage-062": lambda: penstock.verify(graph(), reference="tflite"),
}
