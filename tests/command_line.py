"""Runs the command line in this process, as a terminal would see it."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from penstock.cli import main


@dataclass(frozen=True, slots=True)
class Said:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON value on stdout; fails where there is anything else."""
        return json.loads(self.out)


class CommandLine:
    """Calls `main` with words."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *words: object) -> Said:
        self._monkeypatch.setattr(sys, "argv", ["penstock", *map(str, words)])
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main()
        out, err = self._capsys.readouterr()
        code = caught.value.code
        assert isinstance(code, int)
        return Said(code, out, err)
