"""The commands that print lists: targets, ops, options."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import parameters as p
from penstock.cli.terminal import out, print_json
from penstock.scheduling.options import Options
from penstock.setting import settings_of

if TYPE_CHECKING:
    from penstock.hardware.target import Target


# The commands `backend list` and `backend new`.


def list_backends(as_json: p.Json = False) -> None:
    """List the accelerators with their attributes, patterns and operators."""
    from penstock.backends.discovery import listed, missing

    found = listed()
    if as_json:
        print_json({"backends": [dataclasses.asdict(one) for one in found]})
        return
    if not found:
        out().print("no accelerator is installed; `penstock backend new NAME` makes one")
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 1, 0, 0))
    for one in found:
        table.add_row(Text(one.name), Text(one.origin))
        defaults = ",".join(f"{name}={value}" for name, value in one.attributes.items())
        rows = (
            ("attributes", defaults),
            ("patterns", ", ".join(one.patterns)),
            ("operators", ", ".join(one.operators)),
            ("broken", one.problem),
        )
        for label, text in rows:
            if text:
                table.add_row("", Text(f"{label}: {text}", "dim"))
    if found:
        out().print(table)
    if absent := missing():
        names = ", ".join(absent)
        out().print(f"not installed: {names}; `--accelerator NAME` says how to", highlight=False)


def new(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="Name of the backend: lower-case letters, digits and _."
        ),
    ],
    layout: Annotated[
        str,
        typer.Option(
            metavar="LAYOUT",
            help="file: the description is one file; files: patterns, passes, strategies, code "
            "generation and model are files of their own.",
        ),
    ] = "file",
    kind: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help="package: an accelerator described in Python{kinds}.",
        ),
    ] = "package",
    output: p.Output = None,
    as_json: p.Json = False,
) -> None:
    """Create a package with a working example accelerator, or the description of one."""
    from penstock.scaffold import new_backend, next_command

    folder = name if output is None else output
    bundle = new_backend(name, Path(folder), layout, kind)
    if as_json:
        files = [path for path, _ in bundle.files]
        print_json({"name": name, "folder": folder, "files": files})
        return
    out().print(f"written to {folder}/; its README.md says what is where", highlight=False)
    out().print(f"next: {next_command(name, folder, kind)}", highlight=False)


def targets(
    show: Annotated[
        str | None, typer.Option(metavar="NAME", help="Print the description of one target.")
    ] = None,
    as_json: p.Json = False,
) -> None:
    """List the built-in targets."""
    from penstock.hardware.load import (
        board_names,
        generic_target_names,
        load_target,
        target_text,
    )

    if show is not None:
        if as_json:
            print_json({"target": show, "text": target_text(show)})
        else:
            print(target_text(show), end="")
        return
    groups = {"generic": generic_target_names(), "boards": board_names()}
    found = [(group, load_target(name)) for group, names in groups.items() for name in names]
    if as_json:
        rows = [{"group": group, **dataclasses.asdict(target)} for group, target in found]
        print_json({"targets": rows})
        return
    for group in groups:
        out().print(group, style="bold", highlight=False)
        for target in (target for of, target in found if of == group):
            out().print(
                f"  {target.name:20} {_figures(target)}{target.description}", highlight=False
            )


def _figures(target: Target) -> str:
    """The clock, RAM and flash of a board, in columns; empty for a generic target."""
    if target.clock_hz is None:
        return ""
    ram, flash = (target.memory_for(kind).size_bytes >> 10 for kind in ("arena", "constant"))
    return f"{target.clock_hz // 10**6:>3} MHz {ram:>5} KiB RAM {flash:>5} KiB flash  "


def ops(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="An operator, such as nn.conv2d.")
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
    rows.sort(key=lambda row: str(row["operator"]))
    if as_json:
        print_json({"operators": rows})
    else:
        for row in rows:
            taken = [*row["takes"], *(f"onnx:{name}" for name in row["takes_of_onnx"])]
            out().print(f"{row['operator']:20} {', '.join(taken)}", highlight=False)
            out().print(f"{'':20} {row['meaning']}", style="dim", highlight=False)


def _print_operator(name: str, as_json: bool) -> None:
    from penstock.backends.operator_names import operator_facts
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
        {"option": one.flag, "default": one.default, "meaning": one.help}
        for one in settings_of(Options)
    ]
    if as_json:
        print_json({"options": rows})
    else:
        from rich.table import Column, Table

        heads = Column(no_wrap=True), Column(no_wrap=True), Column()
        table = Table.grid(*heads, padding=(0, 2, 0, 0))
        for row in rows:
            default = row["default"]
            words = ("off", "on")[default] if isinstance(default, bool) else str(default)
            table.add_row(str(row["option"]), words, str(row["meaning"]))
        out().print(table)
        out().print("--no-NAME turns a switch off", style="dim")
