"""The commands `backend list` and `backend new`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli import parameters as p
from penstock.cli.terminal import out, print_json


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
    output: p.Output = None,
    as_json: p.Json = False,
) -> None:
    """Create a package with a working example accelerator."""
    from penstock.scaffold import new_backend

    folder = name if output is None else output
    bundle = new_backend(name, Path(folder), layout)
    if as_json:
        files = [path for path, _ in bundle.files]
        print_json({"name": name, "folder": folder, "files": files})
        return
    out().print(f"written to {folder}/; its README.md says what is where", highlight=False)
    out().print(f'next: pip install -e "{folder}[develop]" && pytest {folder}', highlight=False)
