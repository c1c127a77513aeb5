"""`compile` and its result: the compilation, its report and its files."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
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
from penstock.api.arguments import ignore_stage
from penstock.api.requested import Model, request, with_settings
from penstock.api.settings import Settings
from penstock.brief import Brief, shortened
from penstock.codegen.bundle import Bundle, write_bundle
from penstock.codegen.packages.registry import DEFAULT_PACKAGES, chosen_formats, packaged
from penstock.hardware.default_target import DEFAULT_TARGET
from penstock.optional import Elsewhere, attempt, collected, recorded
from penstock.pipeline.capacity import flash_limit_bytes
from penstock.pipeline.compilation import Compilation, compile_request, delivery, flash_error
from penstock.pipeline.emission import command_line
from penstock.pipeline.graphs import read_request
from penstock.pipeline.portable_layers import portable_layers
from penstock.pipeline.request import Request
from penstock.pipeline.stages import OnStage
from penstock.program.stored_constants import weight_bytes_by_tensor
from penstock.reports.engine_times import engine_times
from penstock.reports.formats import short_names
from penstock.reports.goal import totals
from penstock.reports.html import framed, render_html
from penstock.reports.interface_tensor import InterfaceTensor
from penstock.reports.json_value import Json
from penstock.reports.layer_report import LayerReport, layers
from penstock.reports.live_bytes import live_bytes
from penstock.reports.model_layer import ModelLayer, model_layers
from penstock.reports.report import Point, Report, make_report
from penstock.reports.timeline import Timeline, timelines
from penstock.revision import commit
from penstock.simulators.counts import ExecutionCounts
from penstock.workers import Workers, executor_of, mapped

OTHER_OPTIONS = "other options"
"""The stage that plans what other options yield, as `on_stage` receives it."""


@dataclass(frozen=True, slots=True, repr=False)
class Compiled(Brief):
    """A compiled model.

    compilation: the results of all stages.
    report: the figures, as report.json contains them."""

    compilation: Compilation
    report: Report

    def __repr__(self) -> str:
        return shortened(f"Compiled({totals(self.report)})")

    def _repr_html_(self) -> str:
        return framed(self.page(self.report))

    def bundle(self, packages: str | Sequence[str] = DEFAULT_PACKAGES) -> Bundle:
        """The C files in the layouts of build systems, with report.json and report.html.

        packages: package formats, or "all"; several are in folders named after them.

        Raises UsageError for an unknown format."""
        with recorded() as dropped:
            page = attempt("report.html", lambda: self.page(self.report), lambda: None)
        found = self.as_json()
        found["dropped"] = [dataclasses.asdict(d) for d in (*self.report.dropped, *dropped)]
        text = json.dumps(found, indent=2) + "\n"
        files = [("report.json", text.encode())]
        if page is not None:
            files.append(("report.html", page))
        return packaged(delivery(self.compilation), chosen_formats(packages)).with_files(*files)

    def as_json(self) -> dict[str, Json]:
        """The contents of report.json: the report with its layers and their steps."""
        return {
            **self.report.as_json(),
            "model_layers": self.model_layer_rows(),
            "layers": [layer.as_json() for layer in self.layers],
        }

    def page(self, report: Report, measured: Sequence[ExecutionCounts | None] = ()) -> bytes:
        """A report as HTML; `measured` holds the simulated counts of each step."""
        request = self.compilation.request
        budget = None if request.sram_bytes is None else request.sram_bytes - request.stack_bytes
        return render_html(
            report,
            self.model_layers,
            self.timelines,
            engine_times(self.compilation.schedule, request.target),
            measured or None,
            budget,
        )

    @property
    def inputs(self) -> tuple[InterfaceTensor, ...]:
        """The inputs of the generated code: shape, element type, scale and zero point."""
        return self.report.interface.inputs

    @property
    def outputs(self) -> tuple[InterfaceTensor, ...]:
        """The outputs of the generated code: shape, element type, scale and zero point."""
        return self.report.interface.outputs

    @property
    def layers(self) -> tuple[LayerReport, ...]:
        """One record per step, in execution order: a layer, or equal bands of one."""
        return layers(self.compilation.schedule, self.compilation.program)

    @property
    def model_layers(self) -> tuple[ModelLayer, ...]:
        """One record per operator of the model file, in the order of the model: the sum over the
        steps that compute it."""
        done = self.compilation
        arena, *_ = self.timelines
        return model_layers(
            self.layers,
            done.model,
            weight_bytes_by_tensor(done.program),
            live_bytes(done.schedule, arena),
        )

    def model_layer_rows(self) -> list[dict[str, Json]]:
        """The layers of the model as JSON objects; `short_name` is unique where names allow it."""
        layers = self.model_layers
        names = short_names(layer.name for layer in layers)
        return [{**layer.as_json(), "short_name": names[layer.name]} for layer in layers]

    @property
    def offloaded_steps(self) -> frozenset[int]:
        """Indices of the steps that accelerators run."""
        found = (layer.step for layer in self.layers if layer.offloaded)
        return frozenset(step for step in found if step is not None)

    @property
    def timelines(self) -> tuple[Timeline, ...]:
        """The contents of each memory over one inference, the arena first."""
        return timelines(self.compilation.schedule, self.compilation.program)

    def write(
        self,
        folder: str | Path,
        packages: str | Sequence[str] = DEFAULT_PACKAGES,
        *,
        force: bool = False,
    ) -> None:
        """Write the bundle into a new folder, or over an unchanged earlier bundle, completely or
        not at all; with `force`, replace files of the same names in any folder.

        packages: see `bundle`.

        Raises OutputError, UsageError."""
        write_bundle(self.bundle(packages).with_manifest(), Path(folder), force=force)


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
    return Compiled(done, dataclasses.replace(report, dropped=tuple(dropped)))


def _compiled(wanted: Request, workers: Workers, on_stage: OnStage) -> tuple[Compilation, Report]:
    """Return the compilation and its report, without what was dropped."""
    with executor_of(workers) as executor:
        elsewhere = _streamed_elsewhere(wanted, executor)
        done = compile_request(wanted, on_stage, executor)
        on_stage(OTHER_OPTIONS)
        with_streaming = _with_streaming(done, elsewhere)
    report = make_report(
        done.model,
        wanted.target.name,
        done.schedule,
        done.placement,
        done.program,
        done.point.unbudgeted_bytes,
        wanted.stack_bytes,
        _frontier(done),
        command_line(wanted),
        None if with_streaming is None else with_streaming.least_bytes,
    )
    return done, dataclasses.replace(
        report,
        numbers_assumed=wanted.reading.assume_int8,
        optimize=wanted.goal.value,
        optimised_for=wanted.target.compiler.optimise,
        portable_layers=attempt("portable layers", lambda: portable_layers(done), tuple),
        alternatives=alternatives(done, with_streaming),
        smaller_kernels=with_smaller_kernels(done, report.flash_bytes),
        version=version("penstock"),
        commit=commit(),
        clock_hz=wanted.target.clock_hz,
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
    return streamed(done.model, len(done.parts.parts), done.request)


def _streamed_elsewhere(
    wanted: Request, executor: Executor | None
) -> Iterator[Elsewhere[Planned | None]] | None:
    """The frontier with a streamed input, computed by a worker in the meantime; None without
    workers, or if the request itself streams the input."""
    if executor is None or wanted.stream_input:
        return None
    model = read_request(wanted)
    return mapped(partial(streamed_model, request=wanted), (model,), executor)


def _frontier(done: Compilation) -> tuple[Point, ...]:
    """The points of the frontier as the report lists them, least memory first."""
    pairs = ((p, p.schedule.cost) for p in done.points)
    return tuple(
        Point(p.ram_bytes(done.request), cost.cycles, cost.macs, p is done.point)
        for p, cost in pairs
    )
