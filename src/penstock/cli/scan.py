"""The command `scan`: which models of a folder compile, and what stops the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from penstock import api
from penstock.api.rungs import LAST_RUNGS
from penstock.cli import parameters as p
from penstock.cli import values
from penstock.cli.progress import progress
from penstock.cli.terminal import out, print_json
from penstock.hardware.default_target import DEFAULT_TARGET
from penstock.pipeline.stage_names import STAGE_NAMES
from penstock.scheduling.options import DEFAULTS, Options

SOME_FAIL = 4
"""Exit code if a model does not compile, or is not verified."""
INTERNAL = 3
"""Exit code if penstock itself fails at a model, as elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checks:
    """What is done with each model: one field per option."""

    min_operators: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            help="Leave out models with fewer operators, such as tests of single operators.",
        ),
    ] = 0
    stop_after: Annotated[
        str | None,
        typer.Option(
            metavar="STAGE",
            help=f"Only run the stages up to STAGE ({', '.join(STAGE_NAMES)}). `read` suffices to "
            "find unsupported operators, and is fast.",
        ),
    ] = None
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Also run the checks of `penstock verify` on each model."),
    ] = False
    reference: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Source of ground truth, tflite or onnx, for the models of that format; implies "
            "--verify.",
        ),
    ] = None
    last_rung: Annotated[
        str | None,
        typer.Option(
            metavar="RUNG",
            help=f"The last check (rung) to run ({', '.join(LAST_RUNGS)}; default: core); "
            "implies --verify.",
        ),
    ] = None


NO_CHECKS = Checks()


def scan(
    folder: Annotated[
        str,
        typer.Argument(metavar="FOLDER", help="Folder; its subfolders are scanned, too."),
    ],
    target: p.TargetName = DEFAULT_TARGET,
    checks: Checks = NO_CHECKS,
    limits: p.Limits = p.NO_LIMITS,
    workers: Annotated[
        int,
        typer.Option(
            "--workers",
            "--jobs",
            metavar="N",
            help="Number of processes, each for one model; results do not depend on it.",
        ),
    ] = 1,
    as_json: p.Json = False,
    options: Options = DEFAULTS,
) -> None:
    """Compile every model of a folder and count what stops the others.  Reads all .tflite and .onnx
    files; writes nothing.  For each cause, prints the number of models that it stops, and of those
    that nothing else stops.  The default target has 64 MiB of RAM and of flash, so the operators
    decide, unless --sram, --flash or --target say otherwise.  Exits with 0 if every model compiles,
    with 4 if some do not, with 3 if penstock itself fails at one."""
    from penstock.reports import scan_table
    from penstock.reports.scan import Verdict, cause_counts

    wanted = _settings(checks, limits, options)
    with progress(1) as on_progress:
        scanned = api.scan(folder, target, workers=workers, on_progress=on_progress, **wanted)
        records = tuple(scanned)
    causes = cause_counts(records)
    counts = scan_table.counts(records)
    if as_json:
        print_json(
            {
                "counts": {verdict.value: count for verdict, count in counts.items()},
                "causes": [cause.as_json() for cause in causes],
                "models": [record.as_json() for record in records],
            }
        )
    else:
        out().print(scan_table.model_table(records))
        if causes:
            out().print(scan_table.cause_table(causes))
        out().print(scan_table.totals(records), highlight=False)
    if counts[Verdict.INTERNAL]:
        raise typer.Exit(INTERNAL)
    if counts.total() > counts[Verdict.COMPILES] + counts[Verdict.LEFT_OUT]:
        raise typer.Exit(SOME_FAIL)


def _settings(checks: Checks, limits: p.Limits, options: Options) -> api.ScanSettings:
    """The settings that a command line states.  Raises UsageError."""
    if checks.stop_after is not None:
        values.one_of(checks.stop_after, STAGE_NAMES, "--stop-after")
    reference = checks.reference
    if reference is not None:
        values.one_of(reference, ("tflite", "onnx"), "--reference")
    return api.ScanSettings(
        **values.settings(limits, options),
        min_operators=checks.min_operators,
        stop_after=checks.stop_after,
        verify=checks.verify,
        reference="onnx" if reference == "onnx" else "tflite" if reference else None,
        last_rung=checks.last_rung,
    )
