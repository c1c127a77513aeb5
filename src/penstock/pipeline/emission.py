"""The stages `lower` (placed schedule to program) and `write` (program to C files)."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.backends.accelerator import Accelerator
from penstock.backends.program_passes import after_placement
from penstock.backends.stream import call_writer
from penstock.codegen.bundle import Bundle
from penstock.codegen.c_program import generate
from penstock.codegen.drivers import DriverCode
from penstock.pipeline.placed_point import PlacedPoint
from penstock.pipeline.provenance import c_prefix, provenance
from penstock.pipeline.request import Request
from penstock.program.lower import lower
from penstock.program.program import Program
from penstock.revision import identity
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule


def lower_point(point: PlacedPoint, accelerators: Sequence[Accelerator] = ()) -> Program:
    """Return the program of a placed schedule, after the program passes of the accelerators."""
    program = lower(ExpandedSchedule(point.schedule), point.addresses)
    return after_placement(program, accelerators)


def write(program: Program, request: Request) -> Bundle:
    """Return the C files of a program."""
    drivers = {
        a.name: DriverCode(a.codegen.includes, call_writer(a.codegen), a.codegen.sources)
        for a in request.accelerators
    }
    return generate(
        program,
        request.name or c_prefix(program.name),
        provenance(request),
        keeps_input=request.options.keep_input,
        drivers=drivers,
        optimise=request.target.compiler.optimise,
        compiler=f"penstock {identity()}",
    )
