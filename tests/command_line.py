"""Runs the command line in this process, with the output of a terminal."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from penstock.cli import run, terminal

SLOW_MACHINE = 3600.0
"""The names of stages are printed on stderr only after this time."""


@dataclass(frozen=True, slots=True)
class Said:
    """Output and exit code of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The JSON value on stdout; fails if stdout contains anything else."""
        return json.loads(self.out)


class CommandLine:
    """Calls `run` with arguments."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *words: object) -> Said:
        self._monkeypatch.delenv("COLUMNS", raising=False)  # which pytest-xdist sets
        self._monkeypatch.setattr(terminal, "PATIENCE_WITHOUT_TERMINAL_SECONDS", SLOW_MACHINE)
        self._monkeypatch.setattr(sys, "argv", ["penstock", *map(str, words)])
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            run()
        out, err = self._capsys.readouterr()
        code = caught.value.code
        assert isinstance(code, int)
        return Said(code, out, err)
