"""`compile` and its result: the compilation, its report and its files."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Unpack

from penstock.alternatives import (
    Planned,
    alternatives,
    streamed,
    streamed_model,
    with_smaller_kernels,
)
from penstock.api.arguments import C, check_format, ignore_stage
from penstock.api.reported import Reported
from penstock.api.requested import Model, request, with_settings
from penstock.api.settings import Settings
from penstock.backends.contributions import FORMATS, FileFormat, ModelFile, contribution
from penstock.codegen.bundle import Bundle, write_bundle
from penstock.codegen.packages.registry import DEFAULT_PACKAGES, chosen_formats, packaged
from penstock.errors import UnsupportedError
from penstock.frontends.open import read_bytes, unpacked
from penstock.frontends.tflite import decode, looks_like_tflite
from penstock.hardware.default_target import DEFAULT_TARGET
from penstock.optional import Elsewhere, attempt, collected, recorded
from penstock.pipeline.capacity import flash_limit_bytes
from penstock.pipeline.competing_kernels import kernels_in_competition
from penstock.pipeline.compilation import (
    Compilation,
    compile_graph,
    compile_request,
    delivery,
    flash_error,
)
from penstock.pipeline.emission import command_line, lower_point
from penstock.pipeline.graphs import read_request
from penstock.pipeline.portable_layers import portable_layers
from penstock.pipeline.request import Request
from penstock.pipeline.stages import OnStage
from penstock.program.program import Program
from penstock.reports.layer import Layer, Step
from penstock.reports.making import make_report, ram_usage
from penstock.reports.report import InterfaceTensor, Point, Report
from penstock.reports.timeline import Timeline
from penstock.revision import commit
from penstock.workers import Workers, executor_of, mapped

# The stage that plans what other options yield, as `on_stage` receives it.
OTHER_OPTIONS = "other options"
EVALUATION = "evaluation"


@dataclass(frozen=True, slots=True, repr=False)
class Compiled(Reported):
    """A compiled model.

    report: the figures, as report.json contains them.
    compilation: the results of all stages."""

    compilation: Compilation

    def bundle(
        self, packages: str | Sequence[str] = DEFAULT_PACKAGES, *, format: str = C
    ) -> Bundle:
        """The C files in the layouts of build systems, with report.json and report.html.

        packages: package formats, or "all"; several are in folders named after them.
        format: "c", or a format that an accelerator's package contributes (`file`), instead of C.

        Raises UsageError for an unknown format, and as `file`."""
        check_format(format)
        with recorded() as dropped:
            page = attempt("report.html", self.page, lambda: None)
        report = dataclasses.replace(self.report, dropped=(*self.report.dropped, *dropped))
        files = [("report.json", report.text().encode())]
        if page is not None:
            files.append(("report.html", page))
        if format != C:
            return Bundle((self.file(format), *files))
        return packaged(delivery(self.compilation), chosen_formats(packages)).with_files(*files)

    def file(self, format: str) -> tuple[str, bytes]:
        """The file of a format that an accelerator's package contributes: its name and contents.

        If the format cannot state the compiled schedule, the file has the fastest other one that
        fits and that it can state, maybe one that computes layer by layer.

        Raises UsageError for an unknown format, UnsupportedError if it can state none of them."""
        check_format(format)
        found = contribution(FORMATS, format).load(FileFormat)
        source = model_file(self.compilation)
        first: UnsupportedError | None = None
        for program in _programs(self.compilation):
            try:
                contents = found.write(program, source)
            except UnsupportedError as error:
                first = first or error
            else:
                return found.file_name.format(prefix=self.compilation.prefix), contents
        assert first is not None
        raise first

    @property
    def inputs(self) -> tuple[InterfaceTensor, ...]:
        """The inputs of the generated code: shape, element type, scale and zero point."""
        return self.report.interface.inputs

    @property
    def outputs(self) -> tuple[InterfaceTensor, ...]:
        """The outputs of the generated code: shape, element type, scale and zero point."""
        return self.report.interface.outputs

    @property
    def layers(self) -> tuple[Step, ...]:
        """One record per step, in execution order: a layer, or equal bands of one."""
        return self.report.layers

    @property
    def model_layers(self) -> tuple[Layer, ...]:
        """One record per operator of the model file, in the order of the model: the sum over the
        steps that compute it."""
        return self.report.model_layers

    @property
    def offloaded_steps(self) -> frozenset[int]:
        """Indices of the steps that accelerators run."""
        found = (layer.step for layer in self.layers if layer.offloaded)
        return frozenset(step for step in found if step is not None)

    @property
    def timelines(self) -> tuple[Timeline, ...]:
        """The contents of each memory over one inference, the arena first."""
        return self.report.timelines

    def write(
        self,
        folder: str | Path,
        packages: str | Sequence[str] = DEFAULT_PACKAGES,
        *,
        format: str = C,
        force: bool = False,
    ) -> None:
        """Write the bundle into a new folder, or over an unchanged earlier bundle, completely or
        not at all; with `force`, replace files of the same names in any folder.

        packages, format: see `bundle`.

        Raises OutputError, and as `bundle`."""
        bundle = self.bundle(packages, format=format)
        write_bundle(bundle.with_manifest(), Path(folder), force=force)


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


@with_settings
def compile(
    model: Model | Request,
    target: str = DEFAULT_TARGET,
    *,
    workers: Workers = 1,
    on_stage: OnStage = ignore_stage,
    **settings: Unpack[Settings],
) -> Compiled:
    """Compile a model: a file, a zoo network `zoo:NAME`, a graph built in Python, or a request.

    `workers` is a number of processes, or an executor, see `penstock.workers`; the result does not
    depend on it.  `on_stage` receives the name of each stage as it begins.

    Raises ModelError, UnsupportedError, TargetError, BackendError, UsageError; CapacityError if the
    network exceeds a budget."""
    wanted = model if isinstance(model, Request) else request(model, target, **settings)
    with recorded() as dropped:
        done, report = _compiled(wanted, workers, on_stage)
        check_flash(report, done)
    if wanted.evaluation is not None:
        from penstock.api.evaluated import evaluations  # takes long to import

        on_stage(EVALUATION)
        found = evaluations(wanted, done, wanted.evaluation)
        report = dataclasses.replace(report, evaluations=found)
    return Compiled(dataclasses.replace(report, dropped=tuple(dropped)), done)


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
