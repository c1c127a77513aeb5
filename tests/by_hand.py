"""Programs written by hand, compiled as if the pipeline had made them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from available import compiled
from penstock.codegen.c_program import generate
from penstock.ir.region import Region
from penstock.ir.tensor import Array
from penstock.pipeline import Compilation, prefix_of
from penstock.simulators.machine import Machine
from programs import Example

MODEL = "by_hand"
PREFIX = prefix_of(MODEL)


def compilation_of(example: Example) -> Compilation:
    """The example's program and bundle, for a Cortex-M4; its schedule is another model's."""
    return replace(
        compiled("digits").compilation,
        model=replace(example.graph, name=MODEL),
        graph=example.graph,
        program=example.program,
        bundle=generate(example.program, PREFIX, example.name, keeps_input=False),
    )


def machine_tensors(example: Example, inputs: dict[str, Array]) -> dict[str, Array]:
    """Every tensor that the machine computes, whole; zeros where it computes nothing."""
    found: dict[str, Array] = {}
    types = {node.name: node.output.type for node in example.graph.nodes}

    def gather(name: str, region: Region, elements: Array) -> None:
        whole = found.setdefault(name, np.zeros(types[name].shape, elements.dtype))
        whole[region.slices] = elements

    return {**Machine(example.program, gather).run(inputs), **found}
