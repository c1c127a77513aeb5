"""Compilations of handwritten programs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from available import compiled
from penstock.codegen.c_program import generate
from penstock.codegen.names import c_prefix
from penstock.ir.tensor import Array, Region
from penstock.pipeline.compilation import Compilation
from penstock.simulators.machine import Machine
from programs import Example

MODEL = "by_hand"
PREFIX = c_prefix(MODEL)


def compilation_of(example: Example) -> Compilation:
    """A compilation of the example's program for a Cortex-M4.

    The schedule belongs to another model.
    """
    other = compiled("digits").compilation
    parts = replace(other.parts, graph=example.graph)
    schedule = replace(other.schedule, parts=parts)
    return replace(
        other,
        model=replace(example.graph, name=MODEL),
        point=replace(other.point, schedule=schedule),
        program=example.program,
        bundle=generate(example.program, PREFIX, example.name, keeps_input=False),
    )


def machine_tensors(example: Example, inputs: dict[str, Array]) -> dict[str, Array]:
    """Every tensor that the machine computes; elements that it does not compute are 0."""
    found: dict[str, Array] = {}
    types = {node.name: node.output.type for node in example.graph.nodes}

    def gather(name: str, region: Region, elements: Array) -> None:
        whole = found.setdefault(name, np.zeros(types[name].shape, elements.dtype))
        whole[region.slices] = elements

    return {**Machine(example.program, gather).run(inputs), **found}
