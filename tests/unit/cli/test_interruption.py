"""Signals at several moments of a command end it silently and leave nothing behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

import pytest

STOPPED = """
import os, sys
from importlib import import_module
from importlib.abc import MetaPathFinder

NUMBER, PLACE = int(os.environ["NUMBER"]), os.environ["PLACE"]

def arrive():
    os.kill(os.getpid(), NUMBER)

class AtImport(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == PLACE.removeprefix("import "):
            arrive()

class Finalized:
    def __del__(self):
        arrive()
        sum(range(1000))  # the signal is handled here, where Python drops exceptions

def swallow():
    try:
        arrive()
    except BaseException:
        arrive()  # this one comes while the first is handled

def twice():
    try:
        arrive()
    finally:
        arrive()

KINDS = {"finalizer": Finalized, "swallowed": swallow, "twice": twice}

def interrupt(module, owner, name, come):
    holder = import_module(module)
    holder = getattr(holder, owner) if owner else holder
    plain = getattr(holder, name)
    def interrupted(*values, **options):
        come()
        return plain(*values, **options)
    setattr(holder, name, interrupted)

if __name__ == "__main__":
    from penstock.cli import main
    kind, _, what = PLACE.partition(" ")
    if kind == "import":
        sys.meta_path.insert(0, AtImport())
    else:
        module, _, name = what.partition(":")
        owner, _, name = name.rpartition(".")
        interrupt(module, owner, name, KINDS.get(kind, arrive))
    sys.argv[0] = "penstock"
    main()
"""
SECONDS_TO_END = 20.0
"""Time for processes that end because the command has ended."""
COMPILE = ("compile", "zoo:lenet5", "-o", "new/out")
MOMENTS = {
    "import typer": COMPILE,
    "import numba": COMPILE,
    "import jinja2": COMPILE,
    "finalizer penstock.pipeline.compilation:run_stages": COMPILE,
    "call penstock.pipeline.placing:place_buffers": COMPILE,
    "swallowed penstock.pipeline.placing:place_buffers": COMPILE,
    "twice penstock.pipeline.placing:place_buffers": COMPILE,
    "call penstock.codegen.bundle:_write_files": COMPILE,
    "import multiprocessing.popen_spawn_posix": (*COMPILE, "--workers", "2"),
    "call penstock.workers:_outcome": (*COMPILE, "--workers", "2"),
    "call subprocess:Popen.communicate": ("run", "zoo:lenet5", "--target", "host"),
}
"""By moment, a command: when a module is imported, or when a function is called."""


def running(group: int) -> list[str]:
    """The command lines of the processes of a group that have not ended."""
    listed = subprocess.run(
        ("ps", "-A", "-o", "pgid=,stat=,args="), capture_output=True, text=True, check=True
    ).stdout
    fields = (line.split(None, 2) for line in listed.splitlines())
    return [args for pgid, state, args in fields if int(pgid) == group and "Z" not in state]


@pytest.mark.skipif(shutil.which("ps") is None, reason="there is no ps")
@pytest.mark.parametrize("place", MOMENTS)
def test_a_signal_leaves_nothing_behind(place: str, tmp_path: Path) -> None:
    number = (signal.SIGINT, signal.SIGTERM)[len(place) % 2]
    script = tmp_path / "script.py"
    script.write_text(STOPPED)
    folder, temporary = tmp_path / "folder", tmp_path / "temporary"
    folder.mkdir()
    temporary.mkdir()
    process = subprocess.Popen(
        (sys.executable, str(script), *MOMENTS[place]),
        env={**os.environ, "TMPDIR": str(temporary), "NUMBER": str(int(number)), "PLACE": place},
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    out, err = process.communicate(timeout=60)
    said = [line for line in err.splitlines() if not line.startswith("after ")]  # slow machine
    assert (process.returncode, out, said) == (128 + number, "", ["interrupted"])
    assert list(folder.iterdir()) == list(temporary.iterdir()) == []
    waited_until = monotonic() + SECONDS_TO_END
    while running(process.pid) and monotonic() < waited_until:
        sleep(0.05)
    assert running(process.pid) == []
