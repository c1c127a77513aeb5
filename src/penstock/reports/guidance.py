"""What the user may want next, each with the command to copy, as renderables of rich."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from penstock.reports.command import CompileCommand
from penstock.reports.formats import number
from penstock.reports.goal import alternative_words
from penstock.reports.report import Report


def proposals(report: Report, named: CompileCommand | None) -> Iterator[RenderableType]:
    """Yield what other options yield, each with the command to copy, which is not wrapped."""
    found = tuple(alternative_words(report))
    is_complete = report.ram_bytes_streamed_input is not None
    if not found and report.smaller_kernels is None and is_complete:
        return
    yield Text("\nother options:")
    command = report.command if named is None else named.with_rest(report.command)
    for words, other in zip(found, report.alternatives, strict=True):
        yield Text(words, "dim")
        whole = str(command.with_options(other.options))
        yield Text(f"    {whole}", no_wrap=True, overflow="ignore")
    if report.smaller_kernels is not None:
        saved = number(report.smaller_kernels.saved_bytes)
        yield Text(f"about {saved} bytes of flash less: slower kernels with smaller tables", "dim")
        whole = str(command.with_options(f"--kernels {report.smaller_kernels.kernels}"))
        yield Text(f"    {whole}", no_wrap=True, overflow="ignore")
    if not is_complete:
        yield Text("a streamed input was not planned: --plan-streaming", "dim")
