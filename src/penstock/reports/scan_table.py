"""Text of `penstock scan`, as renderables of rich."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich import box
from rich.table import Column, Table
from rich.text import Text

from penstock.reports.formats import ABSENT, printable
from penstock.reports.scan import CauseCount, Scanned, Verdict

_TOTALS = {
    Verdict.COMPILES: "compile",
    Verdict.REFUSED: "do not compile",
    Verdict.DIFFERS: "differ from the reference",
    Verdict.UNVERIFIED: "compile, but could not be verified",
    Verdict.INTERNAL: "internal error",
    Verdict.LEFT_OUT: "left out (--min-operators)",
}
"""What the totals say of the models with a verdict, before their number."""


def counts(records: Sequence[Scanned]) -> Counter[Verdict]:
    """The number of models by verdict; zero for verdicts that no model has."""
    return Counter(record.verdict for record in records)


def model_table(records: Sequence[Scanned]) -> Table:
    """One row per model that was not left out, with its verdict and causes."""
    table = Table(
        Column("model", overflow="fold"),
        Column("operators", justify="right"),
        Column("verdict"),
        Column("causes", overflow="fold"),
        box=box.SIMPLE_HEAD,
    )
    for record in records:
        if record.verdict is Verdict.LEFT_OUT:
            continue
        copies = f" (copies: {len(record.copies)})" if record.copies else ""
        operators = ABSENT if record.operators is None else str(record.operators)
        causes = "; ".join(found.cause for found in record.obstacles)
        style = "" if record.verdict is Verdict.COMPILES else "bold"
        table.add_row(
            Text(printable(record.path) + copies),
            Text(operators),
            Text(record.verdict.value, style),
            Text(printable(causes)),
        )
    return table


def cause_table(causes: Sequence[CauseCount]) -> Table:
    """One row per cause, with an example."""
    table = Table(
        Column("models", justify="right"),
        Column("alone", justify="right"),
        Column("cause", overflow="fold"),
        Column("code"),
        Column("example", overflow="fold"),
        box=box.SIMPLE_HEAD,
        caption="models: stopped by this cause; alone: by no other cause that is known",
    )
    for cause in causes:
        table.add_row(
            Text(str(len(cause.models)), "bold"),
            Text(str(len(cause.alone))),
            Text(printable(cause.cause)),
            Text(cause.example.code),
            Text(printable(cause.models[0]), "dim"),
        )
    return table


def totals(records: Sequence[Scanned]) -> str:
    """How many models have each verdict, in one line."""
    found = counts(records)
    scanned = len(records) - found[Verdict.LEFT_OUT]
    words = [f"{text}: {found[verdict]}" for verdict, text in _TOTALS.items() if found[verdict]]
    copies = sum(len(record.copies) for record in records)
    if copies:
        words.append(f"copies, not counted: {copies}")
    return "; ".join((f"models: {scanned}", *words))
