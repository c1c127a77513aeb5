"""The commands that compare: verify and golden with ground truth, compare with another report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from penstock import api
from penstock.api.arguments import HOPS, check_reference
from penstock.cli import parameters as p
from penstock.cli.terminal import out, print_error, print_json, print_kernels, progress
from penstock.errors import listed
from penstock.hardware.default_target import DEFAULT_TARGET
from penstock.pipeline.request import STAGE_NAMES

RUNGS = 5  # Steps of the verification ladder that progress expects.
WORSE = 1  # Exit code of `compare --fail-if-worse`, if a figure is worse.
_REPORT = "A report.json, a file with the output of --json, or an output directory."


def verify(
    model: p.Model,
    target: p.TargetName = DEFAULT_TARGET,
    *,
    goldens: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.npz",
            help="Archive of ground truth (`penstock golden`), or inputs and outputs of "
            "onnxruntime, which implies --reference onnx.",
        ),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Source of ground truth: tflite (TensorFlow Lite Micro) or onnx (onnxruntime, "
            "node by node, with a tolerance of one quantisation step).",
        ),
    ] = None,
    layer: p.Layer = None,
    every_point: Annotated[
        bool,
        typer.Option(
            help="Run the program of every point of the frontier on the reference machine."
        ),
    ] = False,
    last_rung: p.LastRung = "core",
    separate_regions: Annotated[
        bool,
        typer.Option(
            help="Run each call of a compiler region of an accelerator, or of a stream of several "
            "calls, by itself, so that all tensors are compared on every rung."
        ),
    ] = False,
    hops: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="With --incremental and without ground truth: number of runs.",
        ),
    ] = HOPS,
    settings: api.Settings,
    compiler: p.CompilerName = "zig",
    workers: p.Workers = 1,
    as_json: p.Json = False,
) -> None:
    """Check a compiled model's results against a reference.  Runs the model operator by
    operator, its program on the reference machine, and its C code on the host and on the simulated
    core, and compares every element of every tensor.  --goldens or --reference supplies
    ground truth for the operators.  Without it, the inputs are random, and program and C code are
    compared with penstock's own arithmetic of the operators."""
    wanted = api.request(model, target, **settings)
    source = check_reference(reference)
    with progress(len(STAGE_NAMES) + RUNGS) as on_stage:
        done = api.verify(
            wanted,
            goldens=goldens,
            reference=source,
            layer=layer,
            every_point=every_point,
            last_rung=last_rung,
            separate_regions=separate_regions,
            hops=hops,
            compiler=compiler,
            workers=workers,
            on_stage=on_stage,
        )
    error = done.error()
    if as_json:
        found = {} if error is None else {"error": error.parts()}
        print_json({**done.report.as_json(), **found})
    else:
        _print_verified(done)
        if layer is not None:
            print_kernels(done.report)
    if error is not None:
        print_error(error)
        raise typer.Exit(error.exit_code)


def _print_verified(done: api.Verified) -> None:
    from penstock.reports import summary
    from penstock.reports.tables import ladder_table

    out().print(ladder_table(done.report.verified))
    for rung in done.rungs:
        for exception in rung.judgement.exceptions if rung.judgement else ():
            out().print(f"documented deviation: {exception}", highlight=False)
    for line in summary.engine_lines(done.report.engines):
        out().print(line)
    tensors = {
        "converted by the caller (--io quantized)": done.converted,
        "computed nowhere": done.vanished,
        "inside region calls, not compared (--separate-regions compares them)": done.in_regions,
        "added by penstock, not in the reference": done.added,
    }
    for said, names in tensors.items():
        if names:
            out().print(f"{said}: {listed(names)}", highlight=False)


def golden(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A .tflite file.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE.npz", help="Archive to write.")
    ],
    state: Annotated[Mapping[str, str], p.DECLARED],
    as_json: p.Json = False,
) -> None:
    """Record a model's results in TensorFlow Lite Micro.  The archive, ground truth for
    `penstock verify --goldens`, contains sets of random inputs, their outputs, and all tensors of
    the first set.  The random seed is the model's CRC-32."""
    with progress(1) as on_stage:
        on_stage("TensorFlow Lite Micro")
        found = api.golden(model, output, states=state)
    tensors = len(found.tensor_crc32)
    if as_json:
        print_json({"model": found.model, "sets": len(found.sets), "tensors": tensors})
    else:
        out().print(f"{output}: {len(found.sets)} sets of inputs, {tensors} tensors of the first")


def compare(
    before: Annotated[str, typer.Argument(metavar="BEFORE", help=_REPORT)],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="The same, of a later command.")],
    fail_if_worse: Annotated[
        bool,
        typer.Option(
            "--fail-if-worse",
            help="Exit with 1 if RAM, flash or cycles are larger, or if the outputs that `run "
            "--json` records differ.",
        ),
    ] = False,
    as_json: p.Json = False,
) -> None:
    """Compare two reports, as before and after an update.  Prints RAM, flash, cycles, and
    the layers and facts about the schedule that differ.  Reports are what `compile` writes, and
    what `compile`, `run`, `profile` and `verify` print with --json."""
    found = api.compare(before, after)
    if as_json:
        print_json(found.as_json())
    else:
        from penstock.reports.tables import comparison_table

        out().print(comparison_table(found), crop=False)
    if fail_if_worse and found.worse:
        raise typer.Exit(WORSE)
