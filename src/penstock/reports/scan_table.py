"""Text of `penstock scan`, as renderables of rich."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.cells import cell_len
from rich.table import Column, Table
from rich.text import Text

from penstock.reports.formats import ABSENT, printable
from penstock.reports.scan import GOOD_VERDICTS, CauseCount, Scanned, Verdict

_TOTALS = {
    Verdict.COMPILES: "compile",
    Verdict.PASSES: "pass the stages up to `{}`",
    Verdict.REFUSED: "do not compile",
    Verdict.DIFFERS: "differ from the reference",
    Verdict.UNVERIFIED: "compile, but could not be verified",
    Verdict.INTERNAL: "internal error",
    Verdict.STOPPED: "not finished (--time-limit)",
    Verdict.LEFT_OUT: "left out (--min-operators)",
}
"""What the totals say of the models with a verdict, before their number."""


def counts(records: Sequence[Scanned]) -> Counter[Verdict]:
    """The number of models by verdict; zero for verdicts that no model has."""
    return Counter(record.verdict for record in records)


@dataclass(frozen=True, slots=True)
class ModelRows:
    """The table of models, printed row by row: its widths follow from what is known before the
    scan.

    names: the paths of all models.
    stop_after: the last stage that runs; None: all.
    verify: the models are verified, too."""

    names: Sequence[str]
    stop_after: str | None
    verify: bool

    def row(self, record: Scanned, console_width: int, *, heading: bool) -> Table | None:
        """The row of a model with its verdict and causes, below the heading if it is the first;
        None if the model was left out."""
        if record.verdict is Verdict.LEFT_OUT:
            return None
        longest = max(cell_len(printable(name)) for name in self.names) + len(" (copies: 1)")
        table = Table(
            Column("model", overflow="fold", width=min(longest, console_width * 2 // 5)),
            Column("operators", justify="right", width=len("operators")),
            Column("verdict", width=max(map(len, self._verdicts()))),
            Column("causes", overflow="fold", min_width=24),
            box=box.SIMPLE_HEAD,
            show_edge=False,
            show_header=heading,
        )
        copies = f" (copies: {len(record.copies)})" if record.copies else ""
        table.add_row(
            Text(printable(record.path) + copies),
            Text(ABSENT if record.operators is None else str(record.operators)),
            Text(self._verdict(record.verdict), "" if record.verdict in GOOD_VERDICTS else "bold"),
            Text(printable("; ".join(found.cause for found in record.obstacles))),
        )
        return table

    def _verdict(self, verdict: Verdict) -> str:
        passes = verdict is Verdict.PASSES
        return f"{verdict.value} {self.stop_after}" if passes else verdict.value

    def _verdicts(self) -> tuple[str, ...]:
        """The verdicts that the column is wide enough for; it wraps others."""
        frequent = (Verdict.PASSES, Verdict.REFUSED, *((Verdict.DIFFERS,) if self.verify else ()))
        return tuple(map(self._verdict, frequent))


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


def totals(records: Sequence[Scanned], stop_after: str | None = None) -> str:
    """How many models have each verdict, in one line.

    stop_after: the last stage that ran; None: all."""
    found = counts(records)
    scanned = len(records) - found[Verdict.LEFT_OUT]
    words = [
        f"{text.format(stop_after)}: {found[verdict]}"
        for verdict, text in _TOTALS.items()
        if found[verdict]
    ]
    copies = sum(len(record.copies) for record in records)
    if copies:
        words.append(f"copies, not counted: {copies}")
    return "; ".join((f"models: {scanned}", *words))
