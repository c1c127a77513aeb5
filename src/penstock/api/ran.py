"""`run` and `profile`: inferences on a simulated core or on the host, with their measurements.

`compare`: two results, or their recorded reports, side by side.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final, Unpack

import numpy as np

from penstock import execution, ladder
from penstock.alternatives import with_measured_stack
from penstock.api.arguments import check_compiler, check_flags, ignore_stage
from penstock.api.arrays import check_are_sets, check_sets, drawn_sets
from penstock.api.compiled import Compiled, compile
from penstock.api.compiling import check_flash
from penstock.api.keywords import with_settings
from penstock.api.layer import cut_layer
from penstock.api.reported import Reported
from penstock.api.requested import Model, request
from penstock.api.settings import Settings
from penstock.brief import shortened
from penstock.choices import InterfaceTypes
from penstock.codegen.bundle import Bundle, Bundled
from penstock.errors import UsageError
from penstock.frozen import frozen
from penstock.hardware.default_target import DEFAULT_TARGET
from penstock.ir.tensor import Array
from penstock.pipeline.graphs import read_request
from penstock.pipeline.request import Request
from penstock.pipeline.stages import OnStage
from penstock.reports import comparison
from penstock.reports.codec import Json
from penstock.reports.comparison import ReportComparison, StatedReport
from penstock.reports.phrases import totals
from penstock.reports.report import CycleCounts, Instructions, Report, report_json
from penstock.simulators.calling import ExecutionCounts
from penstock.simulators.cores import require_tools
from penstock.workers import Workers

RUN: Final = "run"  # The stage after those of the pipeline, as `on_stage` receives it.


@frozen(repr=False)
class Ran(Reported, Bundled):
    """One or more inferences.

    report: the report with measured figures.
    compiled: the compiled model.
    outputs: the outputs of each inference by name; empty if nothing was simulated.
    steps: the counts of each step; None for steps of accelerators, where the core executes a
        stand-in for the driver."""

    compiled: Compiled
    outputs: tuple[Mapping[str, Array], ...]
    steps: tuple[ExecutionCounts | None, ...]

    def __repr__(self) -> str:
        return shortened(f"Ran({len(self.outputs)} inferences, {totals(self.report)})")

    @property
    def functions(self) -> tuple[tuple[str, int], ...]:
        """The name and the bytes of each function of the model's code."""
        return tuple(self.report.functions.items())

    @property
    def unmeasured(self) -> str:
        """The reason why a profile simulated nothing, or an empty text."""
        return self.report.unmeasured or ""

    @property
    def joined_outputs(self) -> Mapping[str, Array]:
        """The outputs by name; those of a sequence are stacked along a new first axis."""
        first, *others = self.outputs
        if not others:
            return first
        return {name: np.stack([run[name] for run in self.outputs]) for name in first}

    def recorded(self) -> dict[str, Json]:
        """The report with layers, functions and outputs, as `run --json` prints it."""
        outputs = self.joined_outputs if self.outputs else {}
        arrays: dict[str, Json] = {name: array.tolist() for name, array in outputs.items()}
        return {**self.as_json(), "outputs": arrays}

    def bundle(self) -> Bundle:
        """profile.json and profile.html."""
        text = self.report.text().encode()
        return Bundle((("profile.json", text), ("profile.html", self.page())))


@with_settings
def run(
    model: Model | Request,
    target: str = DEFAULT_TARGET,
    sets: Sequence[Mapping[str, Array]] | None = None,
    *,
    layer: str | None = None,
    compiler: str = "zig",
    workers: Workers = 1,
    on_stage: OnStage = ignore_stage,
    **settings: Unpack[Settings],
) -> Ran:
    """Compile a model and run it on the target's simulated core, or else on the host.

    `sets` holds the inputs of each inference by name; by default, one set of random inputs, or a
    sequence of them for a model with state, which is reset before the first inference only.  The
    elements have the type of the model's input or that of the generated code.
    `compiler` is "zig" or "gcc".

    layer: the name of a layer to run by itself, with the inputs that it has in the network.
    workers: number of processes, or an executor; the result does not depend on it.
    on_stage: called with the name of each stage when it begins.

    Raises as `compile`; UsageError or ModelError if names, shapes or element types of `sets` are
    not those of the model's inputs; CapacityError also if the measured stack exceeds its reserve,
    or the measured code and constants the flash budget; ToolError if a compiler or simulator
    fails."""
    check_compiler(compiler)
    check_are_sets(sets)
    wanted = request(model, target, **settings)
    require_tools(wanted.target, compiler)
    if layer is not None:
        model_inputs = read_request(wanted)
        check_sets(model_inputs, sets or (), InterfaceTypes.MODEL)
        cut = cut_layer(wanted, layer, 1, sets)
        wanted, sets = cut.request, cut.sets
    compiled = compile(wanted, workers=workers, on_stage=on_stage)
    done = compiled.compilation
    check_sets(done.model, sets or (), wanted.io)
    sets = (
        drawn_sets(done, 1)
        if sets is None
        else [ladder.with_interface(done, given) for given in sets]
    )
    on_stage(RUN)
    if wanted.target.core is None:
        tensors = execution.run_on_host(done, sets, steps=len(sets)).tensors
        outputs = tuple({v.tensor: t[v.tensor] for v in done.program.outputs} for t in tensors)
        return Ran(compiled.report, compiled, outputs, ())
    return _on_core(compiled, sets, compiler)


@with_settings
def profile(
    model: Model | Request,
    target: str = DEFAULT_TARGET,
    *,
    layer: str | None = None,
    simulate: bool = True,
    compiler: str = "zig",
    workers: Workers = 1,
    on_stage: OnStage = ignore_stage,
    **settings: Unpack[Settings],
) -> Ran:
    """Compile a model and count its layers on the target's simulated core.

    layer: the name of a layer to profile by itself, with the inputs that it has in the network.
    simulate: count instructions and cycles; otherwise, estimate cycles.
    compiler: "zig" or "gcc".
    workers: number of processes, or an executor; the result does not depend on it.
    on_stage: called with the name of each stage when it begins.

    All figures are estimates if `simulate` is false, if the target has no simulated core, or if
    the driver of an accelerator has no model in C; `Ran.unmeasured` states which.  Raises as
    `run`."""
    check_compiler(compiler)
    check_flags("profile", simulate=simulate)
    wanted = request(model, target, **settings)
    cut = None if layer is None else cut_layer(wanted, layer, 1)
    wanted = wanted if cut is None else cut.request
    has_c = all(map(ladder.has_c, wanted.accelerators))
    if simulate and has_c and wanted.target.core is not None:
        require_tools(wanted.target, compiler)
    compiled = compile(wanted, workers=workers, on_stage=on_stage)
    on_stage(RUN)
    why = "" if simulate else "as asked for"
    if not why and wanted.target.core is None:
        why = f"target {wanted.target.name} has no simulated core"
    if not why and (missing := ladder.without_c(compiled.compilation)):
        why = f"{', '.join(missing)} has no model of its driver in C"
    if why:
        return Ran(dataclasses.replace(compiled.report, unmeasured=why), compiled, (), ())
    sets = drawn_sets(compiled.compilation, 1) if cut is None else cut.sets
    return _on_core(compiled, sets, compiler)


def _on_core(compiled: Compiled, sets: Sequence[Mapping[str, Array]], compiler: str) -> Ran:
    """Run a model on the target's simulated core; its state is reset before the first set."""
    done = compiled.compilation
    with execution.firmware(done, compiler) as chip:
        runs = [chip.run(inputs, reset=number == 0) for number, inputs in enumerate(sets)]
        report = _with_measurements(compiled, runs, chip.sections)
        functions = dict(chip.functions)
    check_flash(report, done)
    offloaded = compiled.offloaded_steps
    steps = [None if k in offloaded else counts for k, counts in enumerate(runs[0].steps)]
    report = dataclasses.replace(report.with_counts(steps), functions=functions)
    return Ran(report, compiled, tuple(r.tensors for r in runs), tuple(steps))


def _with_measurements(
    compiled: Compiled, runs: Sequence[execution.CoreRun], sections: execution.Sections
) -> Report:
    # If accelerators run steps, the total stays unknown: stand-ins for their drivers say nothing
    # about it.  The processor's own share is known.
    offloaded = compiled.offloaded_steps
    stack_bytes = max(run.stack_bytes for run in runs)
    counts = max((_without_stand_ins(run, offloaded) for run in runs), key=lambda c: c.cycles)
    report, processor = compiled.report, compiled.compilation.request.target.engines[0]
    return dataclasses.replace(
        report,
        flash_bytes=dataclasses.replace(
            report.flash_bytes,
            total=sections.code + sections.weights,
            weights=sections.weights,
            code=sections.code,
        ),
        cycles=CycleCounts(report.cycles.estimated, None if offloaded else counts.cycles),
        instructions=Instructions(None if offloaded else counts.instructions),
        stack_bytes_measured=stack_bytes,
        alternatives=(
            *report.alternatives,
            *with_measured_stack(compiled.compilation, stack_bytes),
        ),
        engines=tuple(
            engine.simulated(counts.cycles) if engine.name == processor.name else engine
            for engine in report.engines
        ),
    )


def _without_stand_ins(run: execution.CoreRun, offloaded: Collection[int]) -> ExecutionCounts:
    stand_ins = sum((run.steps[k] for k in offloaded), run.submissions)
    return run.counts - stand_ins


def compare(before: str | Path | Reported, after: str | Path | Reported) -> ReportComparison:
    """Compare two results or recorded reports, for example before and after an update.

    Each is a result of `compile`, `run`, `profile` or `verify`, a report.json, a file with the
    output of --json, or an output directory.  The comparison holds `figures`, each with `before`
    and `after`; the `layers` and `facts` that differ; whether runs have the `same_outputs`; and
    `worse`, the names of the totals that grew.

    Raises UsageError if one is not a report."""
    return comparison.compare(_stated(before), _stated(after))


def _stated(one: object) -> StatedReport:
    if isinstance(one, str | Path):
        return StatedReport(str(one), report_json(str(one)))
    if isinstance(one, Ran):
        found = one.recorded()
    elif isinstance(one, Reported):
        found = one.as_json()
    else:
        raise UsageError(
            "usage-147",
            f"this {type(one).__name__} has no report",
            where="penstock.compare",
            help="pass a result of compile, run, profile or verify, or the name of a report.json",
        )
    return StatedReport(f"{one.report.model} for {one.report.target}", found)
