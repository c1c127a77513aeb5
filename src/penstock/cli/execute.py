"""The commands that execute a compiled model: run, profile."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock import api
from penstock.choices import one_of
from penstock.cli import parameters as p
from penstock.cli.terminal import out, print_durations, print_json, print_kernels, progress
from penstock.hardware.default_target import DEFAULT_TARGET
from penstock.pipeline.request import STAGE_NAMES
from penstock.reports.command import CompileCommand

if TYPE_CHECKING:
    from penstock.ir.tensor import Array
    from penstock.reports.layer_table import LayerSelection


def run(
    model: p.Model,
    target: p.TargetName = DEFAULT_TARGET,
    *,
    input: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE.npy",
            help="Input file; one per input, in the order of the model's inputs. Random data if "
            "omitted. Its elements have the type of the model's input or that of the generated "
            "code (--io). For a model with state, it may hold a sequence of runs: the first axis "
            "is the run.",
        ),
    ] = None,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE.npy",
            help="Write an output to this file; one per output, in the order of the model's "
            "outputs. Its elements have the type of the generated code (--io). Outputs of a "
            "sequence have the run as their first axis.",
        ),
    ] = None,
    layer: p.Layer = None,
    settings: api.Settings,
    compiler: p.CompilerName = "zig",
    workers: p.Workers = 1,
    as_json: p.Json = False,
    verbose: p.Verbose = False,
) -> None:
    """Compile a model, run it and print its outputs.  It runs on the target's simulated core, or
    on the host if the target has none."""
    wanted = api.request(model, target, **settings)
    with progress(len(STAGE_NAMES) + 1) as on_stage:
        if layer is None:
            api.check_outputs(model, output or [], wanted.reading)
        sets = api.read_inputs(model, input, wanted.reading, wanted.io) if input else None
        done = api.run(
            wanted,
            sets=sets,
            layer=layer,
            compiler=compiler,
            workers=workers,
            on_stage=on_stage,
        )
    outputs = done.joined_outputs
    _write_outputs(output or [], outputs)
    if as_json:
        print_json(done.recorded())
    else:
        from penstock.reports import summary

        named = _named(model, target, layer)
        out().print(summary.summary(done.report, named, verbose), crop=False)
        _print_outputs(outputs, random=sets is None)
        if layer is not None:
            print_kernels(done.report)
        if verbose:
            print_durations(on_stage)


def _named(model: str, target: str, layer: str | None) -> CompileCommand:
    return CompileCommand(model, target, () if layer is None else ("--layer", layer))


def _print_outputs(outputs: Mapping[str, Array], random: bool) -> None:
    import numpy as np

    if random:
        out().print("outputs for random inputs (--input FILE sets inputs):", style="dim")
    for name, array in outputs.items():
        out().print(f"{name}: {np.array2string(array, threshold=24)}", highlight=False)


def _write_outputs(paths: list[Path], outputs: Mapping[str, Array]) -> None:
    """Write the first outputs to the files named.  Raises OutputError."""
    for path, array in zip(paths, outputs.values(), strict=False):
        api.write_array(path, array)


def profile(
    model: p.Model,
    target: p.TargetName = DEFAULT_TARGET,
    *,
    layer: p.Layer = None,
    settings: api.Settings,
    simulate: Annotated[
        bool,
        typer.Option(
            help="Count instructions and cycles on the simulated core; otherwise, print estimates."
        ),
    ] = True,
    sort: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="Order of the layers: model, step, or a figure, the largest first: cycles, macs, "
            "moved (bytes), weights (bytes) or ram. Default: model, or with --top, cycles.",
        ),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Show only the first N layers in that order."),
    ] = None,
    bands: Annotated[
        bool,
        typer.Option(
            "--bands",
            help="List the steps of layers that run in several, such as bands of columns.",
        ),
    ] = False,
    verbose: p.Verbose = False,
    compiler: p.CompilerName = "zig",
    destination: p.Destination = p.DEFAULT_DESTINATION,
    workers: p.Workers = 1,
    as_json: p.Json = False,
) -> None:
    """Print cycles of each layer and size of each function.  Also prints the shape, MACs
    and instructions of each layer and, on accelerators, the limiting resource and the
    utilisation of the multipliers.  With --output-folder, writes the same as HTML,
    where the layers can be sorted and filtered."""
    from penstock.reports.layer_table import LayerOrder, LayerSelection

    order = sort and LayerOrder(one_of(sort, tuple(LayerOrder), "--sort"))
    selection = LayerSelection(order or None, top, bands, verbose)
    wanted = api.request(model, target, **settings)
    output = destination.output and destination.of(lambda: wanted, "", "profile.json", workers)
    with progress(len(STAGE_NAMES) + 1) as on_stage:
        done = api.profile(
            wanted,
            layer=layer,
            simulate=simulate,
            compiler=compiler,
            workers=workers,
            on_stage=on_stage,
        )
        if output is not None:
            done.write(output, force=destination.force)
    if as_json:
        print_json(done.as_json())
    else:
        _print_profile(done, _named(model, target, layer), selection)
        if layer is not None or verbose:
            print_kernels(done.report)
        if output is None:
            out().print("\na page with these tables, to sort and filter: -o DIR", style="dim")
        else:
            out().print(f"written to {output}/", highlight=False)
        if verbose:
            print_durations(on_stage)


def _print_profile(done: api.Ran, named: CompileCommand, selection: LayerSelection) -> None:
    from penstock.reports import layer_table, summary

    report = done.report
    out().print(layer_table.LayerTable(report.model_layers, report.clock_hz, selection))
    if selection.verbose:
        for line in layer_table.constant_lines(report.model_layers):
            out().print(line)
    if report.functions:
        code_bytes = report.flash_bytes.code
        out().print(layer_table.code_table(report.functions, code_bytes, selection.verbose))
    if report.unmeasured:
        out().print(f"nothing is simulated: {report.unmeasured}", highlight=False, markup=False)
    out().print(summary.summary(report, named, selection.verbose), crop=False)
