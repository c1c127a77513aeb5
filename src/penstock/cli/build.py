"""The commands that plan and write code: compile, explore, demo."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock import api
from penstock.api.arguments import check_format
from penstock.cli import parameters as p
from penstock.cli.show import show_stage
from penstock.cli.terminal import out, print_durations, print_json, progress
from penstock.codegen.packages import DEFAULT_PACKAGES
from penstock.hardware.default_target import DEFAULT_TARGET
from penstock.pipeline.request import STAGE_NAMES
from penstock.reports.command import CompileCommand
from penstock.scheduling.options import STRATEGY_NAMES

if TYPE_CHECKING:
    from penstock.hardware.target import Target
    from penstock.pipeline.request import Request


def compile(
    model: p.Model,
    target: p.TargetName = DEFAULT_TARGET,
    *,
    settings: api.Settings,
    stop_after: Annotated[
        str | None,
        typer.Option(
            metavar="STAGE",
            help=f"Stop after STAGE ({', '.join(STAGE_NAMES)}) and print its result; write no "
            "files.",
        ),
    ] = None,
    package: p.Package = None,
    output_format: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="What to write: c (C code){formats}.",
        ),
    ] = "c",
    name: Annotated[str | None, p.DECLARED] = None,
    destination: p.Destination = p.DEFAULT_DESTINATION,
    workers: p.Workers = 1,
    no_cache: Annotated[
        bool,
        typer.Option(
            "--no-cache",
            help="Neither reuse the result of an earlier run with the same model and options, nor "
            "keep this one.",
        ),
    ] = False,
    as_json: p.Json = False,
    verbose: p.Verbose = False,
) -> None:
    """Compile a model to C and a report.  The output directory is named after the model by
    default."""
    packages = chosen_packages(package)
    check_format(output_format)
    settings["name"] = name

    def wanted() -> Request:
        return api.request(model, target, **settings)

    if stop_after is not None:
        show_stage(wanted(), stop_after, workers, as_json)
        return
    default = name or api.default_folder(model)
    folder = destination.of(wanted, default, "report.json", workers)
    with progress(len(STAGE_NAMES)) as on_stage:
        done = api.compile(
            model, target, workers=workers, on_stage=on_stage, cache=not no_cache, **settings
        )
        done.write(folder, packages, format=output_format, force=destination.force)
    if as_json:
        print_json({**done.as_json(), "seconds": dict(done.seconds)})
    else:
        from penstock.reports import summary

        chosen = ("--package", ",".join(packages)) if package else ()
        chosen += ("--format", output_format) if output_format != "c" else ()
        named = CompileCommand(model, target, chosen, folder=folder)
        out().print(summary.summary(done.report, named, verbose), crop=False)
        out().print(f"written to {folder}/", highlight=False)
        if package and output_format == "c":
            _print_notices(packages, wanted().target)
        if verbose and done.seconds:
            print_durations(on_stage)
        elif verbose:
            out().print("\nfrom an earlier run with equal inputs (--no-cache repeats it)")


def chosen_packages(texts: Sequence[str] | None) -> tuple[str, ...]:
    """The names of package formats, by default that of CMake.  Raises UsageError."""
    if texts is None:
        return DEFAULT_PACKAGES
    from penstock.codegen.packages.formats import chosen_formats

    return tuple(format.name for format in chosen_formats(texts))


def _print_notices(packages: Sequence[str], target: Target) -> None:
    """Print the notices about packages whose chips do not run the kernels of the target."""
    from penstock.codegen.packages.formats import chosen_formats, notices
    from penstock.hardware.load import board_names

    is_board = target.name in board_names()
    for what, why, help in notices(chosen_formats(packages), target, is_board=is_board):
        out().print(f"\nnote: {what}\n  why: {why}\n  help: {help}", highlight=False)


def explore(
    model: p.Model,
    target: p.TargetName = DEFAULT_TARGET,
    *,
    settings: api.Settings,
    destination: p.Destination = p.DEFAULT_DESTINATION,
    workers: p.Workers = 1,
    as_json: p.Json = False,
) -> None:
    """Write the Pareto front of memory against cycles.  The output directory, named after the
    model by default, contains it as CSV, JSON and HTML."""
    wanted = api.request(model, target, **settings)
    default = f"{api.default_folder(model)}_frontier"
    folder = destination.of(lambda: wanted, default, "frontier.json", workers)
    with progress(6) as on_progress:
        found = api.explore(wanted, workers=workers, on_progress=on_progress)
        on_progress("write")
        found.write(folder, force=destination.force)
    if as_json:
        print_json(found.choices.as_json())
    else:
        from penstock.reports.tables import choice_table

        named = CompileCommand(model, target)
        out().print(choice_table(found.choices, named), crop=False)
        out().print(f"written to {folder}/", highlight=False)


def compare_partitions(
    model: p.Model,
    target: p.TargetName = DEFAULT_TARGET,
    *,
    settings: api.Settings,
    destination: p.Destination = p.DEFAULT_DESTINATION,
    workers: p.Workers = 1,
    as_json: p.Json = False,
) -> None:
    """Compare the grouping strategies.  Prints the cycles, the bytes to and from main memory and
    the groups of each strategy of --partition.  With --output-folder, also draws the groups on the
    graph, as SVG and HTML."""
    wanted = api.request(model, target, **settings)
    output = destination.output and destination.of(lambda: wanted, "", "partitions.json", workers)
    with progress(1 + len(STRATEGY_NAMES)) as on_stage:
        found = api.compare_partitions(wanted, workers=workers, on_stage=on_stage)
        if output is not None:
            found.write(output, force=destination.force)
    if as_json:
        print_json(found.report.as_json())
        return
    from penstock.reports.tables import partition_table

    out().print(partition_table(found.report), crop=False)
    if output is None:
        out().print("\nthe groups, drawn on the graph: -o DIR", style="dim")
    else:
        out().print(f"written to {output}/", highlight=False)


def demo(
    target: p.TargetName = DEFAULT_TARGET,
    trust_target: Annotated[bool, p.DECLARED] = False,
    destination: p.Destination = p.DEFAULT_DESTINATION,
    as_json: p.Json = False,
) -> None:
    """Run a digit classifier on a simulated core.  It classifies 200 images of
    handwritten digits.  The output directory is `penstock-demo` by default."""
    from penstock import demonstration

    folder = destination.folder(_unused_name("penstock-demo"), "report.json")
    begun: list[str] = []

    def on_step(description: str) -> None:
        begun.append(description)
        print(f"[{len(begun)}/{demonstration.STEPS}] {description}", file=sys.stderr, flush=True)

    found = demonstration.run(
        target, Path(folder), on_step, force=destination.force, trust_target=trust_target
    )
    if as_json:
        print_json(found.as_json())
    else:
        out().print(str(found), highlight=False)


def _unused_name(name: str) -> str:
    """The name, or the first of name-2, name-3, .. that no file has."""
    names = (name, *(f"{name}-{k}" for k in range(2, 1000)))
    return next((free for free in names if not Path(free).exists()), name)
