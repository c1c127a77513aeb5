"""What remains of an external program whose run is interrupted."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

import pytest

from penstock.errors import ToolError
from penstock.toolchains.command import Command, run_all

pytestmark = pytest.mark.skipif(
    None in map(shutil.which, ("sh", "ps")), reason="there is no sh or no ps"
)
SECONDS_TO_START = 20.0
SCRIPT = 'sleep 600 & echo $! "$TMPDIR" > "$1.new"; mv "$1.new" "$1"; wait'
"""A program that starts another one, and tells its process and the temporary folder."""


def test_an_interrupt_leaves_neither_processes_nor_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "told"

    def interrupt(self: subprocess.Popen[bytes], stdin: bytes) -> None:
        _wait_until(told.exists)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "communicate", interrupt)
    with pytest.raises(KeyboardInterrupt):
        _program(told).run()
    monkeypatch.undo()
    _check_nothing_is_left(told)


def test_a_failure_ends_the_commands_beside_it(tmp_path: Path) -> None:
    failing = Command(("sh", "-c", f"until test -e '{tmp_path}/1'; do :; done; exit 1"), "a test")
    with pytest.raises(ToolError, match="exit code 1"):
        run_all((failing, _program(tmp_path / "1")), workers=2)
    _check_nothing_is_left(tmp_path / "1")


def _program(told: Path) -> Command:
    return Command(("sh", "-c", SCRIPT, "sh", str(told)), "a test")


def _check_nothing_is_left(told: Path) -> None:
    process, folder = told.read_text().split()
    assert not Path(folder).exists()
    _wait_until(lambda: not _runs(process))
    assert not _runs(process)


def _wait_until(condition: Callable[[], bool]) -> None:
    """Waits until a condition holds, but not for ever."""
    waited_until = monotonic() + SECONDS_TO_START
    while not condition() and monotonic() < waited_until:
        sleep(0.01)


def _runs(process: str) -> bool:
    """Whether a process has not ended.  A zombie has."""
    listed = subprocess.run(("ps", "-o", "stat=", "-p", process), capture_output=True, text=True)
    return bool(listed.stdout.strip()) and "Z" not in listed.stdout
