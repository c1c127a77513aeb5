"""Misuse of the interface for accelerators in Python, and the errors that it raises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import penstock
from examples.uma import regions
from penstock import api
from penstock.accelerators.vanilla import Vanilla
from penstock.backends.accelerator import AcceleratorTarget, PassPhase
from penstock.backends.pattern import is_op, wildcard
from penstock.ir.graph import Graph
from penstock.program.program import Program
from penstock.tiling.layer_of import layer_of
from penstock.tiling.loop_order import LoopOrder
from penstock.tiling.scratchpads import Scratchpads
from penstock.tiling.tiler import choose

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


def without_a_selection() -> object:
    """An accelerator that cannot select the instances that the target lists."""
    request = api.request(graph(), "host", accelerators=("vanilla",))
    chip = replace(request.target, instances=(("vanilla", 2),))
    accelerator = Vanilla().accelerator(chip=chip)
    return penstock.compile(replace(request, target=chip, accelerators=(accelerator,)))


def registered_instances(select: Any) -> object:
    backend: Any = Vanilla()
    return backend._register_instances(select)


def registered_wait(wait: Any) -> object:
    backend: Any = Vanilla()
    return backend._register_wait(wait)


WRONG_UMA: dict[str, Callable[[], object]] = {
    "backend-060": lambda: compiled(
        Vanilla().partition(graph(), {"macs_per_cycle": 64}), "vanilla"
    ),
    "backend-061": lambda: compiled(Vanilla().partition(graph())),
    "backend-062": lambda: is_op("add")(wildcard(), wildcard()).has_dtype("int9"),
    "backend-063": lambda: wildcard().has_shape((1, -1)),
    "usage-063": lambda: api.explain_pattern(
        api.request(graph(), "host", accelerators=("vanilla",)), "cnv"
    ),
    "backend-064": without_commands,
    "backend-065": region_without_commands,
    "backend-066": without_a_selection,
    "backend-067": lambda: registered_instances(max),
    "backend-096": lambda: registered_wait(max),
    "tiling-007": lambda: choose(
        LoopOrder(("h", "k")), layer_of(graph().nodes[0].op, graph().nodes[0].site), LARGE
    ),
    "usage-133": lambda: penstock.compile(
        Vanilla().partition(graph()), incremental=1, accelerators=("vanilla",)
    ),
    "usage-061": lambda: compiled(network()),
    "usage-062": lambda: penstock.verify(graph(), reference="tflite"),
}
