"""Size: Python code of folders, in tokens, which unlike lines cannot be joined.

    python -m benchmarks.size FOLDER ..

For each folder: files, lines, lines of code, tokens of code, the share of lines in docstrings, and
comments per 1,000 lines of code.  Tokens are counted without comments, docstrings and layout (ends
of lines, indentation).  Tests inside the folders are left out, as are files that do not parse.
"""

from __future__ import annotations

import argparse
import ast
import io
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from benchmarks.entry import entry

LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
"""Tokens that are no code."""
LEFT_OUT = {"autogen", ".venv", "node_modules", "tests", "__pycache__"}
"""Folders within those that are measured."""


@dataclass(frozen=True, slots=True)
class Size:
    """Counts of one or more files."""

    files: int = 0
    lines: int = 0
    code_lines: int = 0
    tokens: int = 0
    docstring_lines: int = 0
    comments: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __str__(self) -> str:
        docstrings = 100 * self.docstring_lines / max(1, self.lines)
        comments = 1000 * self.comments / max(1, self.code_lines)
        return (
            f"files {self.files}, lines {self.lines}, code {self.code_lines}, "
            f"tokens {self.tokens}, docstrings {docstrings:.0f} %, "
            f"comments {comments:.0f} per 1,000"
        )


def main(arguments: Sequence[str]) -> int:
    """Prints a line for each folder."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.size", description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    for folder in parser.parse_args(arguments).folders:
        print(f"{folder}: {sum(sizes(folder), start=Size())}")
    return 0


def sizes(folder: Path) -> Iterator[Size]:
    """The size of each file of a folder."""
    for path in folder.rglob("*.py"):
        if not LEFT_OUT & set(path.parts):
            try:
                yield size(path.read_text("utf-8"))
            except (SyntaxError, UnicodeDecodeError):
                continue


def size(text: str) -> Size:
    """The size of a file.  Raises SyntaxError.

    >>> size('def f():\\n    "Explained."\\n    return 1  # why\\n')
    Size(files=1, lines=3, code_lines=2, tokens=7, docstring_lines=1, comments=1)
    """
    docstrings = set(_docstring_lines(text))
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    code = [t for t in tokens if t.type not in LAYOUT and t.start[0] not in docstrings]
    code_lines = {line for t in code for line in range(t.start[0], t.end[0] + 1)}
    comments = sum(t.type == tokenize.COMMENT for t in tokens)
    return Size(1, text.count("\n"), len(code_lines), len(code), len(docstrings), comments)


def _docstring_lines(text: str) -> Iterator[int]:
    """The lines of strings that are statements: docstrings, and texts below attributes."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(ast.Constant(str()), lineno=first, end_lineno=last):
                yield from range(first, (last or first) + 1)
            case _:
                continue


if __name__ == "__main__":
    entry(main)
