"""The stages `lower` and `write`; the names, the origin and the command in what they write."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from penstock.backends.accelerator import PROGRAM_PHASES, Accelerator, Codegen
from penstock.backends.program_passes import after_placement, after_stripes
from penstock.backends.stream import call_writer
from penstock.codegen.bundle import Bundle
from penstock.codegen.c_driver import DriverCode
from penstock.codegen.c_program import generate
from penstock.codegen.names import c_prefix, default_folder
from penstock.frontends.open import read_bytes
from penstock.ir.text.printer import print_graph
from penstock.pipeline.placing import PlacedPoint
from penstock.pipeline.request import Request, stated
from penstock.program.lower import lower
from penstock.program.program import Program
from penstock.reports.command import CompileCommand
from penstock.revision import identity
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule


def provenance(request: Request) -> str:
    """Return a text for the head of each file: model, digest, target, and how it was read."""
    text = f"{_source(request)}, for {request.target.name}"
    if request.reading.assume_int8:
        text += ", as if it were int8: scales are made up, answers mean nothing"
    limit_bytes = request.reading.size_limit_bytes
    if request.reading.calibration is not None:
        text += f", quantised with {_named_file(request.reading.calibration, limit_bytes)}"
    if request.reading.float16:
        text += ", real numbers in float16"
    hop = request.reading.incremental
    if hop is not None:
        frames = "frame" if hop == 1 else "frames"
        text += f"; incremental: each run takes {hop} new {frames}, before the first run all are 0"
    return text


def _source(request: Request) -> str:
    """Return the name of a zoo network, or the name and the SHA-256 digest of a file or graph."""
    model = request.model
    if request.graph is not None:
        digest = hashlib.sha256(print_graph(request.graph, with_data=True).encode()).hexdigest()
        return f"graph {model}, built in Python (sha256 {digest[:16]})"
    if model.startswith("zoo:"):
        return model
    return _named_file(Path(model), request.reading.size_limit_bytes)


def _named_file(path: Path, limit_bytes: int) -> str:
    """Return the name of a file and the SHA-256 digest of its contents."""
    digest = hashlib.sha256(read_bytes(path, limit_bytes)).hexdigest()
    return f"{path.name} (sha256 {digest[:16]})"


def command_line(request: Request) -> CompileCommand:
    """Return the command that states a request.

    It names the model's file without its folder, so that reports do not depend on folders.  A graph
    that was built in Python has no file; `GRAPH` stands for it."""
    model = request.model if request.model.startswith("zoo:") else Path(request.model).name
    return CompileCommand(
        model if request.graph is None else "GRAPH",
        request.target.name,
        tuple(stated(request)),
        request.sram_bytes,
        None if request.optimize is None else request.optimize.value,
        folder=request.name or default_folder(request.model),
    )


def lower_point(point: PlacedPoint, accelerators: Sequence[Accelerator] = ()) -> Program:
    """Return the program of a placed schedule, after the program passes of the accelerators."""
    point = finished(point, accelerators)
    program = lower(ExpandedSchedule(point.schedule), point.addresses)
    return after_placement(program, accelerators)


def finished(point: PlacedPoint, accelerators: Sequence[Accelerator]) -> PlacedPoint:
    """Return the point after the accelerators' passes of PROGRAM_PHASE_1, which run once."""
    if point.is_finished:
        return point
    return replace(point, schedule=after_stripes(point.schedule, accelerators), is_finished=True)


def draft(point: PlacedPoint, request: Request) -> Program:
    """Return the program of a point that may not be compiled: without program passes of
    accelerators, which see only what is compiled, and then without command streams."""
    if _has_passes(request.accelerators):
        return lower_point(point)
    return lower_point(point, request.accelerators)


def final(program: Program, request: Request) -> Program | None:
    """Return a program of `draft` if it is complete, else None."""
    return None if _has_passes(request.accelerators) else program


def _has_passes(accelerators: Sequence[Accelerator]) -> bool:
    """Return whether accelerators have program passes on schedules."""
    later = PROGRAM_PHASES[1:]
    return any(one.passes(phase) for one in accelerators for phase in later)


def _driver_code(codegen: Codegen, program: Program) -> DriverCode:
    (includes, sources), driver = codegen.generated(program), codegen.driver
    found = DriverCode(includes, call_writer(codegen), sources)
    if driver is None:
        return found
    return replace(found, fallible=driver.submit.name * driver.is_status, cmake=driver.cmake)


def write(program: Program, request: Request) -> Bundle:
    """Return the C files of a program.

    The functions of backends that generate code see this program, the result of all passes."""
    drivers = {a.name: _driver_code(a.codegen, program) for a in request.accelerators}
    return generate(
        program,
        request.name or c_prefix(program.name),
        provenance(request),
        keeps_input=request.options.keep_input,
        drivers=drivers,
        optimise=request.target.compiler.optimise,
        compiler=f"penstock {identity()}",
    )
