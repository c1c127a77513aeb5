"""The table of the verification ladder, as a renderable of rich."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from rich import box
from rich.table import Table
from rich.text import Text

from penstock.reports.formats import ABSENT, number


class Counted(Protocol):
    """The result of a comparison on a rung."""

    @property
    def tensors(self) -> int: ...

    @property
    def elements(self) -> int: ...

    @property
    def mismatches(self) -> int: ...


class LadderRung(Protocol):
    """A rung of the verification ladder with an optional note."""

    @property
    def step(self) -> str: ...

    @property
    def comparison(self) -> Counted | None: ...

    @property
    def note(self) -> str: ...

    @property
    def error(self) -> object | None: ...


def ladder_table(rungs: Iterable[LadderRung]) -> Table:
    """Return a table of the rungs of the verification ladder."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("rung")
    for header in ("tensors", "elements", "mismatches"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("")
    for rung in rungs:
        found = rung.comparison
        counts = [ABSENT] * 3
        if found is not None:
            counts = [number(n) for n in (found.tensors, found.elements, found.mismatches)]
        failed = rung.error is not None or (found is not None and found.mismatches)
        style = "bold red" if failed else ""
        table.add_row(Text(rung.step), *counts, Text(rung.note), style=style)
    return table
