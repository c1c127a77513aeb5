"""Runs external programs, singly or in parallel."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import ToolError

MESSAGE_LINES = 20
"""Lines of a failed program's standard error that its ToolError quotes."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command line, and the name of its subject for messages."""

    words: tuple[str, ...]
    subject: str

    @property
    def program(self) -> str:
        """The program's name without its folder."""
        return Path(self.words[0]).name

    def run(self, stdin: bytes = b"") -> bytes:
        """The standard output of the program.  Raises ToolError if it cannot start or fails."""
        try:
            done = subprocess.run(
                self.words, input=stdin, capture_output=True, check=False, env=_environment()
            )
        except OSError as error:
            raise ToolError(
                "tool-002",
                f"cannot start {self.program}",
                where=self.subject,
                why=str(error),
                help="check that it is installed and on the search path",
            ) from error
        if done.returncode != 0:
            raise ToolError(
                "tool-003",
                f"{self.program} failed with exit code {done.returncode}",
                where=self.subject,
                why=_first_lines(done.stderr) or "it wrote nothing to its standard error",
                help=f"see that the installation of {self.program} works; if it does, please "
                "report this message with the model",
            )
        return done.stdout


def run_all(commands: Sequence[Command], workers: int) -> None:
    """Runs independent commands, at most `workers` in parallel.

    Raises the ToolError of the first failing command in the given order.
    """
    with ThreadPoolExecutor(max_workers=workers) as executor:
        runs = [executor.submit(command.run) for command in commands]
        for run in runs:
            run.result()


def _environment() -> dict[str, str]:
    """The environment of this process, with untranslated messages."""
    return {**os.environ, "LC_ALL": "C"}


def _first_lines(message: bytes) -> str:
    lines = message.decode(errors="replace").strip().splitlines()
    return "\n       ".join(lines[:MESSAGE_LINES])
