"""The commands that print lists: targets, ops, options."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from penstock.cli import parameters as p
from penstock.cli.terminal import out, print_json
from penstock.scheduling.options import Options


def targets(
    show: Annotated[
        str | None, typer.Option(metavar="NAME", help="Print the description of one target.")
    ] = None,
    as_json: p.Json = False,
) -> None:
    """List the built-in targets."""
    from penstock.hardware.load import load_target, target_names, target_text

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
            out().print(f"{target.name:20} {target.description}", highlight=False)


def ops(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="An operator, such as nn.conv2d.")
    ] = None,
    as_json: p.Json = False,
) -> None:
    """List the operators and their names in model files.  With NAME, print the definition of one
    operator and the facts that backends can query."""
    if name is not None:
        _print_operator(name, as_json)
        return
    from penstock.ops.registry import operator_files

    rows = [
        {
            "operator": op.__name__,
            "takes": list(op.TFLITE),
            "takes_of_onnx": list(op.ONNX),
            "meaning": file.summary(op),
        }
        for file in operator_files()
        for op in file.ops
        if op.TFLITE or op.ONNX
    ]
    if as_json:
        print_json({"operators": rows})
    else:
        for row in rows:
            taken = [*row["takes"], *(f"onnx:{name}" for name in row["takes_of_onnx"])]
            out().print(f"{row['operator']:20} {', '.join(taken)}", highlight=False)
            out().print(f"{'':20} {row['meaning']}", style="dim", highlight=False)


def _print_operator(name: str, as_json: bool) -> None:
    from penstock.backends.operator_facts import operator_facts
    from penstock.reports.formats import ABSENT

    found = operator_facts(name, "penstock ops")
    if as_json:
        print_json({"operators": [dataclasses.asdict(facts) for facts in found]})
        return
    for facts in found:
        out().print(f"{facts.definition}\n", highlight=False)
        for label in ("names", "attributes", "parameters", "tables"):
            out().print(
                f"  {label:12} {', '.join(getattr(facts, label)) or ABSENT}", highlight=False
            )


def options(as_json: p.Json = False) -> None:
    """List the search options with their defaults."""
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
            out().print(
                f"{row['option']:20} {row['default']!s:12} {row['meaning']}", highlight=False
            )
