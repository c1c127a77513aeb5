"""The command line, in an empty folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import CommandLine


@pytest.fixture
def penstock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    """Runs a command in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return CommandLine(monkeypatch, capsys)
