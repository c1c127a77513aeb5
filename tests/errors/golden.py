"""Goldens: the exact messages that users see, one file for each error code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "messages"
CHECKOUT = Path(__file__).resolve().parents[2]
SOURCES = (CHECKOUT / "src", *sorted(CHECKOUT.glob("accelerators/*/src")))
CODE = re.compile(r"[a-z]+-[0-9]{3}")


class Golden:
    """Compares a message with its file, or with --update-golden writes the file."""

    def __init__(self, update: bool, folder: Path) -> None:
        self._update = update
        self._folder = folder

    def check(self, code: str, message: str) -> None:
        """The message, with folders of this machine called FOLDER and CHECKOUT, is that of the
        file."""
        text = message.replace(str(self._folder), "FOLDER").replace(str(CHECKOUT), "CHECKOUT")
        text = text.rstrip("\n") + "\n"
        path = FOLDER / f"{code}.txt"
        if self._update:
            path.write_text(text, "utf-8")
        if not path.is_file():
            pytest.fail(f"there is no {path.name}; write it with --update-golden\n{text}")
        assert text == path.read_text("utf-8")


def raised_codes() -> dict[str, set[str]]:
    """By code, the classes of errors that the sources raise with it: calls whose first argument is
    a code."""
    found: dict[str, set[str]] = {}
    for path in sorted(path for folder in SOURCES for path in folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not (isinstance(node, ast.Call) and node.args):
                continue
            first = node.args[0]
            if isinstance(first, ast.Constant) and CODE.fullmatch(str(first.value)):
                assert isinstance(node.func, ast.Name), f"{path.name}:{node.lineno}"
                found.setdefault(str(first.value), set()).add(node.func.id)
    return found
