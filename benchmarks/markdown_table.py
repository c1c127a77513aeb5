"""MarkdownTable: the tables of a markdown file, by their headers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

_NUMBER = re.compile(r"\d[\d,]*")
_ROW = re.compile(r"\s*\|(.*)\|\s*")
_RULE = re.compile(r"[\s:|-]+")


@dataclass(frozen=True, slots=True)
class MarkdownTable:
    """Header cells and rows of cells, without emphasis."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def column(self, words: str) -> int | None:
        """The first column whose header contains these words."""
        found = (k for k, cell in enumerate(self.header) if words.lower() in cell.lower())
        return next(found, None)


def markdown_tables(text: str) -> Iterator[MarkdownTable]:
    """Every table of a text: lines between bars, of which the second is a rule."""
    lines = text.splitlines()
    for is_row, group in groupby(lines, key=lambda line: _ROW.fullmatch(line) is not None):
        block = list(group)
        if is_row and len(block) > 2 and _RULE.fullmatch(block[1]):
            header, _, *rows = (_cells(line) for line in block)
            yield MarkdownTable(header, tuple(rows))


def column_of(text: str, key: str, words: str) -> Mapping[str, str]:
    """Cells under the header `words` by the cells under `key`, of the first table with both; empty
    where there is no such table."""
    for table in markdown_tables(text):
        keys, values = table.column(key), table.column(words)
        if keys is not None and values is not None:
            width = max(keys, values)
            return {row[keys]: row[values] for row in table.rows if len(row) > width}
    return {}


def number(cell: str) -> int | None:
    """The first number of a cell.

    >>> number("28,032"), number("- "), number("**12,288** (or less)")
    (28032, None, 12288)
    """
    found = _NUMBER.search(cell)
    return int(found[0].replace(",", "")) if found else None


def _cells(line: str) -> tuple[str, ...]:
    found = _ROW.fullmatch(line)
    assert found is not None, line
    return tuple(cell.replace("*", "").strip() for cell in found[1].split("|"))
