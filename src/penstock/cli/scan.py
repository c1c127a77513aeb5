"""The command `scan`: which models of a folder compile, and what stops the others."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, cast

import typer

from penstock import api
from penstock.api.arguments import LAST_RUNGS
from penstock.cli import parameters as p
from penstock.cli.terminal import out, print_json, progress
from penstock.errors import escaped
from penstock.frozen import frozen
from penstock.hardware.default_target import DEFAULT_TARGET
from penstock.pipeline.request import STAGE_NAMES

if TYPE_CHECKING:
    from penstock.api.scanned import ModelFile
    from penstock.reports.scan import Scanned

SOME_FAIL = 4  # Exit code if a model does not compile, or is not verified.
INTERNAL = 3  # Exit code if penstock itself fails at a model, as elsewhere.


@frozen(kw_only=True)
class Checks:
    """What is done with each model: one field per option, named as in `ScanSettings`."""

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
            help=f"Only run the stages up to STAGE ({', '.join(STAGE_NAMES)}); models that nothing "
            "stops `pass` them. `read` suffices to find unsupported operators, and is fast.",
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
            help=f"The last check (rung) to run ({', '.join(LAST_RUNGS)}{{rungs}}; default: core); "
            "implies --verify.",
        ),
    ] = None
    time_limit_seconds: Annotated[
        float | None,
        typer.Option(
            "--time-limit",
            metavar="SECONDS",
            help="Stop each model after this time, and go on with the next; which models are "
            "stopped depends on the machine.",
        ),
    ] = None
    memory_limit: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Stop each model whose process takes more memory than this, and go on with the "
            "next (Linux, without --verify).",
        ),
    ] = None


NO_CHECKS = Checks()


def scan(
    folder: Annotated[
        str,
        typer.Argument(metavar="FOLDER", help="Folder; its subfolders are scanned, too."),
    ],
    target: p.TargetName = DEFAULT_TARGET,
    *,
    checks: Checks = NO_CHECKS,
    settings: api.Settings,
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
) -> None:
    """Compile every model of a folder and count failures.  Reads all .tflite and .onnx
    files; writes nothing.  Prints the verdict of each model as soon as it is known.  For each
    cause, prints the number of models that it stops, and of those that nothing else stops; also
    when it is interrupted.  The default target has 64 MiB of RAM and of flash, so the operators
    decide, unless --sram, --flash or --target say otherwise.  Exits with 0 if every model compiles,
    with 4 if some do not, with 3 if penstock itself fails at one."""
    from penstock.api.scanned import Examination, distinct_models, examined
    from penstock.reports import tables
    from penstock.reports.scan import GOOD_VERDICTS, Verdict

    every = cast(api.ScanSettings, {**settings, **dataclasses.asdict(checks)})
    how = Examination.of(target, every)
    found = distinct_models(folder)
    rows = tables.ModelRows(tuple(one.name for one in found), how.stop_after, how.verify)
    records: list[Scanned] = []
    has_heading = False
    try:
        with progress(1) as on_progress:

            def take(record: Scanned) -> None:
                nonlocal has_heading
                records.append(record)
                row = rows.row(record, out().width, heading=not has_heading)
                if row is not None and not as_json:
                    has_heading = True
                    on_progress.print(row)

            for record in examined(found, how, workers, on_progress, at_interruption=take):
                take(record)
    except (KeyboardInterrupt, SystemExit):  # by a signal
        _print_result(records, how.stop_after, as_json)
        _say_unfinished(found, {record.path for record in records})
        raise
    _print_result(records, how.stop_after, as_json)
    verdicts = {record.verdict for record in records}
    if Verdict.INTERNAL in verdicts:
        raise typer.Exit(INTERNAL)
    if verdicts - {*GOOD_VERDICTS, Verdict.LEFT_OUT}:
        raise typer.Exit(SOME_FAIL)


def _print_result(records: Sequence[Scanned], stop_after: str | None, as_json: bool) -> None:
    """Print the causes and totals of the models that are done; as JSON, also the models."""
    from penstock.reports import tables
    from penstock.reports.scan import cause_counts

    causes = cause_counts(records)
    if as_json:
        counts = tables.verdict_counts(records)
        print_json(
            {
                "counts": {verdict.value: count for verdict, count in counts.items()},
                "causes": [cause.as_json() for cause in causes],
                "models": [record.as_json() for record in records],
            }
        )
    elif records:
        out().print(*([tables.cause_table(causes)] if causes else []))
        out().print(tables.scan_totals(records, stop_after), highlight=False)


def _say_unfinished(found: Sequence[ModelFile], done: Collection[str]) -> None:
    """Name the first model that is not done, if there is one."""
    for number, one in enumerate(found, 1):
        if one.name not in done:
            words = f"not finished: {one.name} (model {number} of {len(found)})"
            with suppress(OSError, AttributeError):  # standard error is closed
                print(escaped(words), file=sys.stderr, flush=True)
            return
