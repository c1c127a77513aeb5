"""External programs and optional packages: running, importing, caching what they build."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import field
from importlib import import_module
from pathlib import Path
from types import ModuleType

from penstock.errors import ToolError
from penstock.frozen import frozen

# The folder in which penstock caches build products that it can rebuild.


def cache_folder() -> Path:
    """The user's cache folder, created if needed; a temporary folder if it is not writable."""
    folder = user_cache() / "penstock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        folder = None
    if folder is None or not os.access(folder, os.W_OK):
        return Path(tempfile.mkdtemp(prefix="penstock-"))
    return folder


def user_cache() -> Path:
    """The folder for caches of all programs of the user; it may not exist."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", str(Path.home() / "AppData" / "Local")))
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache"))


# Imports packages of the `simulate` extra on demand; penstock runs without them.


def extra(module: str) -> ModuleType:
    """The module of that name.  Raises ToolError if it is not installed."""
    try:
        return import_module(module)
    except ImportError as missing:
        raise ToolError(
            "tool-001",
            f"the Python package that provides '{module}' cannot be imported",
            where=f"Python package {module.partition('.')[0]}",
            why=str(missing),
            help="pip install 'penstock[simulate]'",
        ) from missing


MESSAGE_LINES = 20  # Lines of a failed program's standard error that its ToolError quotes.
# How linkers report that nothing defines a function.
_UNDEFINED = re.compile(r"undefined (?:reference to|symbol:) [`']?(\w+)")


@frozen
class Command:
    """A command line, the name of its subject for messages, and additional variables of its
    environment."""

    words: tuple[str, ...]
    subject: str
    variables: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def program(self) -> str:
        """The program's name without its folder."""
        return Path(self.words[0]).name

    def run(self, stdin: bytes = b"", running: set[subprocess.Popen[bytes]] | None = None) -> bytes:
        """The standard output of the program.  While it runs, its process is in `running`.

        Raises ToolError if it cannot start or fails."""
        try:
            code, stdout, stderr = _run(
                self.words, stdin, set() if running is None else running, self.variables
            )
        except OSError as error:
            raise ToolError(
                "tool-002",
                f"cannot start {self.program}",
                where=self.subject,
                why=str(error),
                help="check that it is installed and on the search path",
            ) from error
        if code != 0 and (undefined := _undefined(stderr)):
            raise ToolError(
                "tool-044",
                f"no source file defines {', '.join(undefined)}",
                where=self.subject,
                why=f"the generated C calls them, and {self.program} found no definition",
                help="define them in the C files that the accelerator registers (`sources`); "
                "without an accelerator, please report this message with the model",
            )
        if code != 0:
            raise ToolError(
                "tool-003",
                f"{self.program} failed with exit code {code}",
                where=self.subject,
                why=_first_lines(stderr) or "it wrote nothing to its standard error",
                help=f"see that the installation of {self.program} works; if it does, please "
                "report this message with the model",
            )
        return stdout


def run_all(commands: Sequence[Command], workers: int) -> None:
    """Runs independent commands, at most `workers` in parallel.

    Raises the ToolError of the first failing command in the given order, and kills the others.
    """
    running: set[subprocess.Popen[bytes]] = set()
    with ThreadPoolExecutor(max_workers=workers) as executor:
        runs = [executor.submit(command.run, running=running) for command in commands]
        try:
            for run in runs:
                run.result()
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            for process in tuple(running):
                _kill(process)
            raise


def _run(
    words: Sequence[str],
    stdin: bytes,
    running: set[subprocess.Popen[bytes]],
    variables: Mapping[str, str],
) -> tuple[int, bytes, bytes]:
    # The program has a temporary folder of its own, which is removed when it ends.  If this process
    # is interrupted, the program and the processes that it started are killed first.
    pipe = subprocess.PIPE
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        subprocess.Popen(
            words,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env={**_environment(folder), **variables},
            process_group=0,
        ) as process,
    ):
        running.add(process)
        try:
            stdout, stderr = process.communicate(stdin)
        except BaseException:
            _kill(process)
            raise
        finally:
            running.remove(process)
    return process.returncode, stdout, stderr


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kills a process and, except on Windows, all processes of its group."""
    if sys.platform == "win32":
        process.kill()
    else:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _environment(folder: str) -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C", **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), folder)}


def _undefined(message: bytes) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_UNDEFINED.findall(message.decode(errors="replace"))))


def _first_lines(message: bytes) -> str:
    lines = message.decode(errors="replace").strip().splitlines()
    return "\n       ".join(lines[:MESSAGE_LINES])
