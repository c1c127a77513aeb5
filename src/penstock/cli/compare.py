"""The command `compare`: two reports side by side."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli import parameters as p
from penstock.cli.terminal import out, print_json

WORSE = 1
"""Exit code with --fail-if-worse, if a figure is worse."""
_HELP = "A report.json, a file with the output of --json, or an output directory."


def compare(
    before: Annotated[str, typer.Argument(metavar="BEFORE", help=_HELP)],
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
    """Compare two reports, for example before and after an update.  Prints RAM, flash, cycles, and
    the layers and facts about the schedule that differ.  Reports are what `compile` writes, and
    what `compile`, `run`, `profile` and `verify` print with --json."""
    from penstock import api

    found = api.compare(before, after)
    if as_json:
        print_json(found.as_json())
    else:
        from penstock.reports.comparison_table import comparison_table

        out().print(comparison_table(found), crop=False)
    if fail_if_worse and found.worse:
        raise typer.Exit(WORSE)
