"""What `penstock.compile` computes: the stages, what other options yield, the report, the files."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path

from penstock.alternatives import (
    Planned,
    alternatives,
    streamed,
    streamed_model,
    with_smaller_kernels,
)
from penstock.api.arguments import C
from penstock.backends.contributions import FORMATS, FileFormat, ModelFile, contribution
from penstock.codegen.bundle import Bundle
from penstock.codegen.packages.formats import chosen_formats, packaged
from penstock.errors import UnsupportedError
from penstock.frontends.open import read_bytes, unpacked
from penstock.frontends.tflite import decode, looks_like_tflite
from penstock.optional import Elsewhere, attempt, collected, recorded
from penstock.pipeline.capacity import flash_limit_bytes
from penstock.pipeline.compilation import (
    Compilation,
    compile_graph,
    compile_request,
    delivery,
    flash_error,
)
from penstock.pipeline.emission import command_line, lower_point
from penstock.pipeline.graphs import read_request
from penstock.pipeline.processor_kernels import kernels_in_competition, portable_layers
from penstock.pipeline.request import Request
from penstock.pipeline.stages import OnStage
from penstock.program.program import Program
from penstock.reports.making import make_report, ram_usage
from penstock.reports.report import Point, Report
from penstock.revision import commit
from penstock.workers import Workers, executor_of, mapped

# The stage that plans what other options yield, as `on_stage` receives it.
OTHER_OPTIONS = "other options"
EVALUATION = "evaluation"


def _programs(done: Compilation) -> Iterator[Program]:
    """Yield the programs of all schedules that fit: that of the selected point, then the others,
    the fastest first; then those that compute the network layer by layer."""
    yield done.program
    whole = replace(done.request, options=replace(done.request.options, max_parts=1))
    for wanted in (done.request, whole):
        found = done if wanted is done.request else compile_graph(done.model, wanted)
        points = (p for p in found.points if p.is_feasible(wanted) and p is not done.point)
        for point in sorted(points, key=lambda p: p.schedule.cost.cycles):
            yield lower_point(point, wanted.accelerators)


def model_file(done: Compilation) -> ModelFile:
    """Return the file of the model; for a network without a file, an empty one."""
    request = done.request
    limit_bytes = request.reading.size_limit_bytes
    is_file = request.graph is None and not request.model.startswith("zoo:")
    raw = read_bytes(Path(request.model), limit_bytes) if is_file else b""
    raw = unpacked(raw, request.model, limit_bytes) if is_file else raw
    is_tflite = looks_like_tflite(raw) and request.reading.calibration is None
    return ModelFile(request.model, raw, decode(raw, done.model.name) if is_tflite else None)


def compiled(wanted: Request, workers: Workers, on_stage: OnStage) -> tuple[Compilation, Report]:
    """The compilation and its report.  Raises as `penstock.compile`."""
    with recorded() as dropped:
        done, report = _compiled(wanted, workers, on_stage)
        check_flash(report, done)
    if wanted.evaluation is not None:
        from penstock.api.evaluated import evaluations  # takes long to import

        on_stage(EVALUATION)
        found = evaluations(wanted, done, wanted.evaluation)
        report = dataclasses.replace(report, evaluations=found)
    return done, dataclasses.replace(report, dropped=tuple(dropped))


def files(done: Compilation, packages: str | Sequence[str], format: str) -> Bundle:
    """The files of a compilation in the layouts of packages, or in another format than C.

    Raises UsageError for an unknown package, and as `Compiled.file`."""
    if format != C:
        return Bundle((file(done, format),))
    return packaged(delivery(done), chosen_formats(packages))


def file(done: Compilation, format: str) -> tuple[str, bytes]:
    """The name and contents of `Compiled.file`."""
    found = contribution(FORMATS, format).load(FileFormat)
    source = model_file(done)
    first: UnsupportedError | None = None
    for program in _programs(done):
        try:
            contents = found.write(program, source)
        except UnsupportedError as error:
            first = first or error
        else:
            return found.file_name.format(prefix=done.prefix), contents
    assert first is not None
    raise first


def _compiled(wanted: Request, workers: Workers, on_stage: OnStage) -> tuple[Compilation, Report]:
    """The compilation and its report, without what was dropped."""
    with executor_of(workers) as executor:
        elsewhere = _streamed_elsewhere(wanted, executor)
        done = compile_request(wanted, on_stage, executor)
        on_stage(OTHER_OPTIONS)
        with_streaming = _with_streaming(done, elsewhere)
    free_bytes = done.point.unbudgeted_bytes
    ram = ram_usage(done.schedule, done.program, free_bytes, wanted.stack_bytes)
    frontier = _frontier(done)
    report = make_report(done, wanted.target, ram, frontier, command_line(wanted), free_bytes)
    return done, dataclasses.replace(
        report,
        ram_bytes_streamed_input=None if with_streaming is None else with_streaming.least_bytes,
        numbers_assumed=wanted.reading.assume_int8,
        optimize=wanted.goal.value,
        portable_layers=attempt("portable layers", lambda: portable_layers(done), tuple),
        competing_kernels=attempt("competing kernels", lambda: kernels_in_competition(done), tuple),
        alternatives=alternatives(done, with_streaming),
        smaller_kernels=with_smaller_kernels(done, report.flash_bytes),
        version=version("penstock"),
        commit=commit(),
    )


def check_flash(report: Report, done: Compilation) -> None:
    """Raises CapacityError if constants and code exceed the flash budget."""
    if report.flash_bytes.total > flash_limit_bytes(done.request):
        raise flash_error(report, done)


def _with_streaming(
    done: Compilation, elsewhere: Iterator[Elsewhere[Planned | None]] | None
) -> Planned | None:
    """The frontier with a streamed input; None if it is not planned."""
    if elsewhere is not None:
        return collected(next(elsewhere))
    if done.request.stream_input:
        chosen = done.point.ram_bytes(done.request), done.schedule.cost.cycles
        return Planned(done.points[0].ram_bytes(done.request), chosen)
    return streamed(done.model, done.parts, done.request)


def _streamed_elsewhere(
    wanted: Request, executor: Executor | None
) -> Iterator[Elsewhere[Planned | None]] | None:
    """The frontier with a streamed input, computed by a worker in the meantime; None without
    workers, with accelerators, or if the request itself streams the input."""
    if executor is None or wanted.stream_input or wanted.accelerators:
        return None
    model = read_request(wanted)
    return mapped(partial(streamed_model, request=wanted), (model,), executor)


def _frontier(done: Compilation) -> tuple[Point, ...]:
    pairs = ((p, p.schedule.cost) for p in done.points)
    return tuple(
        Point(p.ram_bytes(done.request), cost.cycles, cost.macs, p is done.point)
        for p, cost in pairs
    )
