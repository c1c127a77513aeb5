"""Deliveries to package, and what their examples print for inputs that represent 0."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from available import path_of
from cascades import EVERY_PROGRAM
from penstock import api
from penstock.codegen.bundle import write_bundle
from penstock.codegen.c_program import generate
from penstock.codegen.interface import interface
from penstock.codegen.names import Names
from penstock.codegen.packages.delivery import Delivery
from penstock.codegen.packages.formats import PACKAGE_FORMATS
from penstock.pipeline.compilation import delivery
from penstock.program.steps import streams
from penstock.simulators.graph import run_graph
from penstock.simulators.machine import Machine


@dataclass(frozen=True, slots=True)
class Delivered:
    """A delivery, and the numbers that its example prints, one list for each output."""

    delivery: Delivery
    printed: list[list[float]]

    def unpack(self, format: str, folder: Path) -> Path:
        """The folder with the package."""
        write_bundle(PACKAGE_FORMATS[format].pack(self.delivery), folder)
        return folder

    def agrees(self, text: str) -> bool:
        """Whether a text consists of the numbers, one line for each output."""
        return [[float(word) for word in line.split()] for line in text.splitlines()] == (
            self.printed
        )


@cache
def model_delivery(model: str, **settings: object) -> Delivered:
    """A committed model, with the numbers of the reference machine."""
    done = api.compile(path_of(model), "cortex-m4", **settings).compilation  # pyright: ignore
    program = done.program
    inputs = {
        view.tensor: np.full(view.type.shape, view.type.zero_point, view.type.dtype.value)
        for view in (*program.inputs, *streams(program))
    }
    found = Machine(program).run(inputs)
    outputs = [found[view.tensor] for view in program.outputs]
    return Delivered(delivery(done), [array.ravel().tolist() for array in outputs])


@cache
def program_delivery(name: str, prefix: str = "by_hand") -> Delivered:
    """A program written by hand, with the numbers of its graph."""
    example = next(one for one in EVERY_PROGRAM if one.name == name)
    inputs = example.graph.inputs
    zeros = {v.name: np.full(v.type.shape, v.type.zero_point, np.int8) for v in inputs}
    outputs = run_graph(example.graph, zeros)
    made = Delivery(
        generate(example.program, prefix, name, keeps_input=False),
        interface(example.program, Names.of(example.program, prefix)),
        name,
        "cortex-m4",
        ("-mcpu=cortex-m4", "-mthumb"),
        "speed",
        stack_bytes=1024,
    )
    return Delivered(made, [outputs[v.name].ravel().tolist() for v in example.graph.outputs])
