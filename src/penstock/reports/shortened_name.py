"""ShortenedName: a name that is shortened in the middle to the width of its column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions
from rich.measure import Measurement
from rich.text import Text

from penstock.reports.formats import shorten_middle

LEAST_LETTERS = 8
"""Names are not shortened further than this unless the table has no room at all."""


@dataclass(frozen=True, slots=True)
class ShortenedName:
    """A name in a table. The ends of names tell similar layers apart, so both are kept."""

    name: str

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(len(self.name), LEAST_LETTERS), Text(self.name).cell_len)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        name = shorten_middle(self.name, options.max_width)
        yield Text(name, no_wrap=True, overflow="ellipsis")
