"""The sentence: read -> simplify -> assign -> schedule -> place -> lower -> write.

Each stage is a function from one frozen noun to the next; each noun can be printed.
"""

from __future__ import annotations

from pathlib import Path

from penstock.backends.portable import Processor, assign
from penstock.codegen.bundle import Bundle
from penstock.codegen.c_program import generate
from penstock.codegen.c_text import identifier
from penstock.errors import InternalError
from penstock.frontends.open import parse, read_bytes
from penstock.hardware.target import Target
from penstock.ir.graph import Graph
from penstock.memory.check import check
from penstock.memory.greedy import place_greedily
from penstock.memory.problem import Placement
from penstock.program.lower import Addresses, lower
from penstock.program.program import Program
from penstock.scheduling.layered import layer_by_layer
from penstock.scheduling.lifetimes import problem
from penstock.scheduling.part import Parts
from penstock.scheduling.schedule import Schedule


def read(model: str) -> Graph:
    path = Path(model)
    return parse(read_bytes(path), path.name)


def schedule(parts: Parts, target: Target) -> Schedule:
    return layer_by_layer(parts, Processor(target.engines[0]), keep_inputs=False).schedules[0]


def place(schedule: Schedule) -> Placement:
    rectangles = problem(schedule)
    placement = place_greedily(rectangles)
    if faults := check(rectangles, placement):
        raise InternalError("place-001", f"the placement is wrong: {faults[0]}")
    return placement


def lowered(schedule: Schedule, placement: Placement, target: Target) -> Program:
    addresses = Addresses(
        target.memory_for("arena").name,
        target.memory_for("constant").name,
        dict(placement.offsets),
        placement.height_bytes,
    )
    return lower(schedule, addresses)
