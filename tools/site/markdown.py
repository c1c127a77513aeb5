"""Text in Markdown pages: escapes, tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

CODE = re.compile(r"(`[^`]*`)|([<>*_\[\]|$~])")


def escaped(text: str) -> str:
    r"""Escape what Markdown would take for markup, except for code in backquotes.

    >>> print(escaped("a `x*y` <b>"))
    a `x*y` \<b\>
    """
    return CODE.sub(lambda match: match[1] or f"\\{match[2]}", " ".join(text.split()))


def table(head: Sequence[str], rows: Iterable[Iterable[str]], numbers_from: int = 1) -> str:
    """Return a table whose columns from `numbers_from` on are aligned to the right."""
    rule = [":--" if k < numbers_from else "--:" for k in range(len(head))]
    lines = [head, rule, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
