"""Verbs: what each command prints.  They decide nothing; `api` does the work."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
import typer

from penstock import api
from penstock.backends.operator_facts import operator_facts
from penstock.cli import parameters as p
from penstock.cli.progress import progress
from penstock.cli.terminal import out, print_json
from penstock.errors import UsageError
from penstock.hardware.load import DEFAULT_TARGET, load_target, target_names, target_text
from penstock.ir.tensor import Array
from penstock.ops.registry import operator_files
from penstock.pipeline import STAGES, Request
from penstock.pipeline import stage as pipeline_stage
from penstock.program import text
from penstock.reports import summary
from penstock.reports.engine_work import NodeLine
from penstock.reports.formats import ABSENT
from penstock.scheduling.options import DEFAULTS, Options
from penstock.scheduling.selection import Optimize
from penstock.workers import executor_of
from penstock.zoo.registry import zoo_networks

LIMITS = p.Limits()
_Value = TypeVar("_Value")


def compile(
    model: p.Model,
    target: p.TargetName = DEFAULT_TARGET,
    limits: p.Limits = LIMITS,
    stop_after: Annotated[
        str | None, typer.Option(help="Print that stage's noun, write nothing.")
    ] = None,
    output: p.Output = None,
    workers: p.Workers = 1,
    as_json: p.Json = False,
    options: Options = DEFAULTS,
) -> None:
    """Compile a model to C, with its report, into a new folder (the model's name by default)."""
    wanted = _request(model, target, limits, options)
    if stop_after is not None:
        _print_stage(wanted, stop_after, workers, as_json)
        return
    with progress(len(STAGES)) as on_stage:
        done = api.compile(wanted, workers=workers, on_stage=on_stage)
        folder = done.compilation.prefix if output is None else output
        done.write(folder)
    if as_json:
        print_json({**done.report.as_json(), "seconds": dict(done.compilation.seconds)})
    else:
        out.print(summary.summary(done.report))
        out.print(f"written to {folder}/", highlight=False)


def explore(
    model: p.Model,
    target: p.TargetName = DEFAULT_TARGET,
    limits: Annotated[p.Limits, p.Without(("flash",))] = LIMITS,
    output: p.Output = None,
    workers: p.Workers = 1,
    as_json: p.Json = False,
    options: Options = DEFAULTS,
) -> None:
    """Write every schedule worth choosing, memory against cycles, as CSV, JSON and a picture."""
    wanted = _request(model, target, limits, options)
    with progress(6) as on_progress:
        found = api.explore(wanted, workers=workers, on_progress=on_progress)
        on_progress("write")
        folder = found.folder if output is None else output
        found.write(folder)
    if as_json:
        print_json(found.choices.as_json())
    else:
        out.print(summary.choice_table(found.choices))
        out.print(f"written to {folder}/", highlight=False)


def run(
    model: p.Model,
    target: p.TargetName = DEFAULT_TARGET,
    input: Annotated[list[Path] | None, typer.Option(help="An input as .npy; repeatable.")] = None,
    output: Annotated[list[Path] | None, typer.Option(help="Where to write an output.")] = None,
    limits: p.Limits = LIMITS,
    compiler: p.CompilerName = "zig",
    workers: p.Workers = 1,
    as_json: p.Json = False,
    options: Options = DEFAULTS,
) -> None:
    """Compile a model, run it on the simulated core (or the host) and print what it cost."""
    wanted = _request(model, target, limits, options)
    wanted_outputs = output or []
    with progress(len(STAGES) + 1) as on_stage:
        sets = [api.read_inputs(model, input, wanted.reading)] if input else None
        done = api.run(
            wanted,
            sets=sets,
            compiler=_compiler(compiler),
            workers=workers,
            on_stage=on_stage,
        )
    if len(wanted_outputs) > len(done.outputs[0]):
        raise UsageError(
            "usage-017",
            f"{len(wanted_outputs)} files for outputs are named, the model has "
            f"{len(done.outputs[0])}",
            where="--output",
            help="name a file for each output, or for the first ones",
        )
    for path, array in zip(wanted_outputs, done.outputs[0].values(), strict=False):
        api.write_array(path, array)
    if as_json:
        print_json({**done.report.as_json(), "outputs": _as_lists(done.outputs[0])})
    else:
        out.print(summary.summary(done.report))
        for name, array in done.outputs[0].items():
            out.print(f"{name}: {np.array2string(array, threshold=24)}", highlight=False)


def verify(
    model: p.Model,
    target: p.TargetName = DEFAULT_TARGET,
    goldens: Annotated[Path | None, typer.Option(help="An archive of ground truth.")] = None,
    reference: Annotated[
        str | None,
        typer.Option(help="tflite: ask TensorFlow Lite Micro; onnx: ONNX's evaluator."),
    ] = None,
    every_point: Annotated[
        bool, typer.Option(help="Run every point of the frontier in the machine.")
    ] = False,
    limits: p.Limits = LIMITS,
    compiler: p.CompilerName = "zig",
    workers: p.Workers = 1,
    as_json: p.Json = False,
    options: Options = DEFAULTS,
) -> None:
    """Walk the verification ladder: reference, machine, C on the host, C on the simulated core."""
    wanted = _request(model, target, limits, options)
    if reference is not None:
        _choice(reference, ("tflite", "onnx"), "--reference")
    with progress(len(STAGES) + 5) as on_stage:
        done = api.verify(
            wanted,
            goldens=goldens,
            reference="onnx" if reference == "onnx" else "tflite" if reference else None,
            every_point=every_point,
            compiler=_compiler(compiler),
            workers=workers,
            on_stage=on_stage,
        )
    error = done.mismatch()
    if as_json:
        found = {} if error is None else {"error": error.parts()}
        print_json({**done.report.as_json(), **found})
    else:
        out.print(summary.ladder_table(done.rungs))
        for line in summary.engine_lines(done.report.engines):
            out.print(line)
        for name in done.vanished:
            out.print(f'computed nowhere: "{name}"', highlight=False)
        for name in done.added:
            out.print(f'not of the model, not compared: "{name}"', highlight=False)
    if error is not None:
        print(error, file=sys.stderr)
        raise typer.Exit(error.exit_code)


def profile(
    model: p.Model,
    target: p.TargetName = DEFAULT_TARGET,
    limits: Annotated[p.Limits, p.Without(("flash", "rounding"))] = LIMITS,
    simulate: Annotated[
        bool, typer.Option(help="Count on the simulated core; without, all is estimated.")
    ] = True,
    compiler: p.CompilerName = "zig",
    output: p.Output = None,
    workers: p.Workers = 1,
    as_json: p.Json = False,
    options: Options = DEFAULTS,
) -> None:
    """Print a line per layer: shape, work, instructions, cycles, also per MAC and beside the floor;
    on accelerators what limits it and how busy the multipliers are; and what its code takes.  With
    --output-folder, also as a page with pictures.  A compiler that fails is an error."""
    wanted = _request(model, target, limits, options)
    with progress(len(STAGES) + 1) as on_stage:
        done = api.profile(
            wanted,
            simulate=simulate,
            compiler=_compiler(compiler),
            workers=workers,
            on_stage=on_stage,
        )
        if output is not None:
            done.write(output)
    if as_json:
        print_json(done.as_json())
    else:
        out.print(summary.layer_table(done.compiled.layers, done.steps))
        for line in summary.constant_lines(done.compiled.layers):
            out.print(line)
        if done.functions:
            out.print(summary.code_table(done.functions))
        if done.unmeasured:
            out.print(f"nothing is simulated: {done.unmeasured}", highlight=False, markup=False)
        out.print(summary.summary(done.report))
        if output is not None:
            out.print(f"written to {output}/", highlight=False)


def golden(
    model: p.Model,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE.npz", help="Archive to write.")
    ],
    as_json: p.Json = False,
) -> None:
    """Write ground truth for a model, from TensorFlow Lite Micro."""
    with progress(1) as on_stage:
        on_stage("TensorFlow Lite Micro")
        found = api.golden(model, output)
    tensors = len(found.tensor_crc32)
    if as_json:
        print_json({"model": found.model, "sets": len(found.sets), "tensors": tensors})
    else:
        out.print(f"{output}: {len(found.sets)} sets of inputs, {tensors} tensors of the first")


def show(
    model: p.Model,
    target: p.TargetName = DEFAULT_TARGET,
    accelerator: p.Accelerator = None,
    stop_after: Annotated[str, typer.Option(help=f"One of {', '.join(STAGES)}.")] = "simplify",
    nodes: Annotated[
        bool, typer.Option(help="A line a node, with accelerators as these see it.")
    ] = False,
    with_data: Annotated[
        bool, typer.Option(help="With constants, so that it can be read back.")
    ] = False,
    strict: p.Strict = False,
    assume_int8: p.AssumeInt8 = False,
    dimension: p.Dimension = None,
    workers: p.Workers = 1,
    as_json: p.Json = False,
) -> None:
    """Print a stage's noun as text: the graph, the schedule, the program.  `zoo:` lists the zoo."""
    if model == "zoo:":
        _print_zoo(as_json)
        return
    wanted = api.request(
        model,
        target,
        accelerators=accelerator or (),
        strict=strict,
        assume_int8=assume_int8,
        dimensions=_dimensions(dimension),
    )
    if nodes:
        _print_nodes(api.nodes(wanted), as_json)
        return
    _print_stage(wanted, stop_after, workers, as_json, with_data=with_data)


def _print_nodes(nodes: Sequence[NodeLine], as_json: bool) -> None:
    if as_json:
        print_json({"nodes": [dataclasses.asdict(node) for node in nodes]})
        return
    out.print(summary.node_table(nodes))


def _print_zoo(as_json: bool) -> None:
    exhibits = zoo_networks()
    if as_json:
        print_json({"zoo": [dataclasses.asdict(exhibit) for exhibit in exhibits]})
        return
    for exhibit in exhibits:
        defaults = ",".join(f"{o.name}={o.default}" for o in exhibit.options)
        out.print(f"zoo:{exhibit.name}:{defaults}", highlight=False)
        out.print(f"    {exhibit.summary}", style="dim", highlight=False)


def targets(
    show: Annotated[str | None, typer.Option(metavar="NAME", help="Print its description.")] = None,
    as_json: p.Json = False,
) -> None:
    """List the targets that come with penstock."""
    if show is not None:
        if as_json:
            print_json({"target": show, "text": target_text(show)})
        else:
            print(target_text(show), end="")
        return
    found = [load_target(name) for name in target_names()]
    if as_json:
        print_json({"targets": [dataclasses.asdict(target) for target in found]})
    else:
        for target in found:
            out.print(f"{target.name:20} {target.description}", highlight=False)


def ops(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="An operator, as nn.conv2d.")
    ] = None,
    as_json: p.Json = False,
) -> None:
    """List the operators, and the names in model files that they take; of one, what backends may
    ask about it."""
    if name is not None:
        _print_operator(name, as_json)
        return
    rows = [
        {
            "operator": op.__name__,
            "takes": list(op.FOREIGN),
            "takes_of_onnx": list(file.onnx_names(op)),
            "meaning": (file.module.__doc__ or "").splitlines()[0].split(": ", 1)[-1],
        }
        for file in operator_files()
        for op in file.ops
        if op.FOREIGN or file.onnx_names(op)
    ]
    if as_json:
        print_json({"operators": rows})
    else:
        for row in rows:
            taken = [*row["takes"], *(f"onnx:{name}" for name in row["takes_of_onnx"])]
            out.print(f"{row['operator']:20} {', '.join(taken)}", highlight=False)
            out.print(f"{'':20} {row['meaning']}", style="dim", highlight=False)


def _print_operator(name: str, as_json: bool) -> None:
    found = [dataclasses.asdict(facts) for facts in operator_facts(name, "penstock ops")]
    if as_json:
        print_json({"operators": found})
        return
    for facts in found:
        out.print(facts.pop("operator"), style="bold", highlight=False)
        for label, names in facts.items():
            out.print(f"  {label:12} {', '.join(names) or ABSENT}", highlight=False)


def options(as_json: p.Json = False) -> None:
    """List the options of the search with their defaults."""
    rows = [
        {
            "option": f"--{f.name.replace('_', '-')}",
            "default": f.default,
            "meaning": f.metadata["help"],
        }
        for f in dataclasses.fields(Options)
    ]
    if as_json:
        print_json({"options": rows})
    else:
        for row in rows:
            out.print(f"{row['option']:20} {row['default']!s:12} {row['meaning']}", highlight=False)


def demo(
    output: p.Output = None,
    as_json: p.Json = False,
) -> None:
    """Compile the digits model and run 200 test digits on a simulated Cortex-M4."""
    from penstock import demonstration

    folder = _free_folder("penstock-demo") if output is None else output
    with progress(len(STAGES) + 2) as on_stage:
        found = demonstration.run(Path(folder), on_stage)
    if as_json:
        print_json(found.as_json())
    else:
        out.print(str(found), highlight=False)


def _free_folder(name: str) -> str:
    """The name, or the first of name-2, name-3, .. that is free."""
    names = (name, *(f"{name}-{k}" for k in range(2, 1000)))
    return next((free for free in names if not Path(free).exists()), name)


def _request(model: str, target: str, limits: p.Limits, options: Options) -> Request:
    single = _is_second(limits.rounding, ("double", "single"), "--rounding")
    return api.request(
        model,
        target,
        sram=limits.sram,
        memory=_sizes(limits.memory or ()),
        flash=limits.flash,
        stack=limits.stack,
        rounding="single" if single else "double",
        optimize=None if limits.optimize is None else Optimize.of(limits.optimize),
        stream_input=limits.stream_input,
        options=options,
        accelerators=limits.accelerator or (),
        strict=limits.strict,
        assume_int8=limits.assume_int8,
        dimensions=_dimensions(limits.dimension),
    )


def _dimensions(items: Sequence[str] | None) -> dict[str, int]:
    """Extents by name, of NAME=N."""
    found: dict[str, int] = {}
    for item in items or ():
        name, _, extent = item.rpartition("=")
        if not name or not extent.isdecimal() or not 0 < int(extent) < 2**31:
            raise UsageError(
                "usage-032",
                f"{item!r} names no extent",
                where="--dimension",
                help="write NAME=N, as in batch=1",
            )
        found[name] = _once(int(extent), name in found, item, "--dimension")
    return found


def _sizes(items: Sequence[str]) -> dict[str, str]:
    """Sizes by memory, of REGION=SIZE."""
    found: dict[str, str] = {}
    for region, size in map(_pair, items):
        found[region] = _once(size, region in found, f"{region}={size}", "--memory")
    return found


def _once(value: _Value, again: bool, item: str, option: str) -> _Value:
    """The value.  Raises UsageError where the option gave one for the same name before."""
    if again:
        raise UsageError(
            "usage-059",
            f"{item!r} is the second value for the same name",
            where=option,
            help=f"give {option} once for each name",
        )
    return value


def _pair(item: str) -> tuple[str, str]:
    region, equals, size = item.partition("=")
    if not equals:
        raise UsageError(
            "usage-012", f"{item!r} has no size", where="--memory", help="write REGION=SIZE"
        )
    return region, size


def _compiler(name: str) -> str:
    return _choice(name, ("zig", "gcc"), "--compiler")


def _is_second(value: str, allowed: tuple[str, str], option: str) -> bool:
    return _choice(value, allowed, option) == allowed[1]


def _choice(value: str, allowed: tuple[str, ...], option: str) -> str:
    if value not in allowed:
        raise UsageError(
            "usage-013",
            f"{value!r} is not known",
            where=option,
            help=f"take one of {', '.join(allowed)}",
        )
    return value


def _print_stage(
    wanted: Request, stage: str, workers: int, as_json: bool, *, with_data: bool = False
) -> None:
    name = _choice(stage, STAGES, "--stop-after")
    with executor_of(workers) as executor:
        noun = pipeline_stage(wanted, name, executor)
    shown = text.show(noun, with_data=with_data)
    if as_json:
        print_json({"stage": stage, "text": shown})
    else:
        print(shown, end="")


def _as_lists(arrays: Any) -> dict[str, Any]:
    found: dict[str, Array] = dict(arrays)
    return {name: array.tolist() for name, array in found.items()}
