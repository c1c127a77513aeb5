"""A folder with damaged models in it, the command line, and the goldens."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from command_line import CommandLine
from errors.broken_files import write_broken_files
from penstock.backends.uma import backend


@pytest.fixture
def penstock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    """Runs a command in a folder of broken files."""
    monkeypatch.chdir(tmp_path)
    write_broken_files(tmp_path)
    return CommandLine(monkeypatch, capsys)


@pytest.fixture
def no_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """No program on the search path, and no package ziglang."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "ziglang", None)


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    monkeypatch.setattr(backend, "REGISTERED", {})
