"""Goldens: the exact messages that users see, one file for each error code.

They are in folders `messages` beside the tests: here, and in packages of accelerators that raise
errors of their own.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.errors import PenstockError

CHECKOUT = Path(__file__).resolve().parents[2]
CORE, *ACCELERATORS = (CHECKOUT / "src", *sorted(CHECKOUT.glob("accelerators/*/src")))
CODE = re.compile(r"[a-z]+-[0-9]{3}")


class Golden:
    """Compares a message with its file in `messages`, or with --update-golden writes the file.

    folder: the folder in which commands run."""

    def __init__(self, update: bool, folder: Path, messages: Path) -> None:
        self._update = update
        self._folder = folder
        self.messages = messages

    def check(self, code: str, message: str) -> None:
        """The message, with folders of this machine called FOLDER and CHECKOUT, is that of the
        file."""
        text = message.replace(str(self._folder), "FOLDER").replace(str(CHECKOUT), "CHECKOUT")
        text = text.rstrip("\n") + "\n"
        path = self.messages / f"{code}.txt"
        if self._update:
            path.write_text(text, "utf-8")
        if not path.is_file():
            pytest.fail(f"there is no {path.name}; write it with --update-golden\n{text}")
        assert text == path.read_text("utf-8")

    def check_call(self, code: str, call: Callable[[], object]) -> None:
        """A call raises the error of this code, with the message of the file."""
        with pytest.raises(PenstockError) as caught:
            call()
        assert caught.value.code == code
        self.check(code, str(caught.value))

    def codes(self) -> set[str]:
        """The codes that have a message."""
        return {path.stem for path in self.messages.glob("*.txt")}


def raised_codes(*folders: Path) -> dict[str, set[str]]:
    """By code, the classes of errors that sources raise with it: calls whose first argument is a
    code."""
    found: dict[str, set[str]] = {}
    for path in sorted(path for folder in folders for path in folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not (isinstance(node, ast.Call) and node.args):
                continue
            first = node.args[0]
            if isinstance(first, ast.Constant) and CODE.fullmatch(str(first.value)):
                assert isinstance(node.func, ast.Name), f"{path.name}:{node.lineno}"
                found.setdefault(str(first.value), set()).add(node.func.id)
    return found
