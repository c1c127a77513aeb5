"""The command line in a separate process: start, streams, closed pipes."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from command_line import CommandLine
from penstock.toolchains import host

REPOSITORY = Path(__file__).resolve().parents[3]
SOURCES = REPOSITORY / "src"
WORDS = (sys.executable, "-m", "penstock")
ENVIRONMENT: Mapping[str, str] = {**os.environ, "PYTHONPATH": str(SOURCES)}


def test_python_m_penstock_is_the_command_line() -> None:
    done = subprocess.run(
        (*WORDS, "targets"), env=ENVIRONMENT, capture_output=True, text=True, check=True, timeout=60
    )
    assert "  cortex-m4 " in done.stdout


def test_a_closed_pipe_is_not_reported() -> None:
    process = subprocess.Popen(
        (*WORDS, "ops"), env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(60) == 128 + signal.SIGPIPE
    process.stderr.close()


def test_closed_streams_are_no_error() -> None:
    done = subprocess.run(
        ("sh", "-c", '"$@" >&- 2>&-', "sh", *WORDS, "options"), env=ENVIRONMENT, timeout=60
    )
    assert done.returncode == 0


def test_a_terminal_without_unicode_is_no_error(tmp_path: Path) -> None:
    environment = {**ENVIRONMENT, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        (*WORDS, "compile", "m\u00f6dell.tflite"),
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert "m\\xf6dell.tflite" in done.stderr
    assert "Traceback" not in done.stderr


STOPPED = """
import os, sys, tempfile, time
from importlib.abc import MetaPathFinder
from penstock.cli import main

def stop(*words, **options):
    with tempfile.TemporaryDirectory():
        os.kill(os.getpid(), {number})
        time.sleep(60)

class Stopping(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "penstock.api":
            stop()

if "{where}" == "import":
    sys.meta_path.insert(0, Stopping())
else:
    from penstock import api
    api.compile = stop
sys.argv = ["penstock", "compile", "zoo:lenet5", "--json"]
main()
"""


@pytest.mark.parametrize("where", ["import", "verb"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_request_to_stop_ends_with_one_line_and_leaves_no_files(
    where: str, number: signal.Signals, tmp_path: Path
) -> None:
    done = subprocess.run(
        (sys.executable, "-c", STOPPED.format(where=where, number=int(number))),
        env={**ENVIRONMENT, "TMPDIR": str(tmp_path)}, cwd=tmp_path, capture_output=True,
        text=True, timeout=50,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "", "interrupted\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("words", [("ops",), ("ops", "--json"), ("compile", "none", "--json")])
def test_a_full_device_is_an_error(words: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            (*WORDS, *words), env=ENVIRONMENT, stdout=full, stderr=subprocess.PIPE, text=True,
            timeout=60,
        )  # fmt: skip
    assert done.returncode == 1
    code = "model-001" if words[0] == "compile" else "output-004"
    assert done.stderr.startswith(f"error[{code}]: ")
    assert "Traceback" not in done.stderr


@pytest.fixture
def no_compilers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing on the search path, and no package ziglang."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "ziglang", None)
    host.host_compiler.cache_clear()


def test_a_missing_host_compiler_error_tells_what_to_install(
    penstock: CommandLine, model: Path, no_compilers: None
) -> None:
    said = penstock("run", model, "--target", "host")
    host.host_compiler.cache_clear()
    assert said.code == 1
    assert said.err.startswith("error[tool-004]: no C compiler found on this machine\n  --> ")
    assert "help: install gcc or clang, or pip install 'penstock[simulate]'" in said.err


def test_a_missing_zig_error_tells_what_to_install(
    penstock: CommandLine, model: Path, no_compilers: None
) -> None:
    said = penstock("run", model)
    assert said.code == 1
    assert said.err.startswith("error[tool-001]: the Python package that provides 'ziglang'")
    assert "help: pip install 'penstock[simulate]'" in said.err


def test_a_missing_gcc_error_tells_what_to_install(
    penstock: CommandLine, model: Path, no_compilers: None
) -> None:
    said = penstock("run", model, "--compiler", "gcc")
    assert said.code == 1
    assert said.err.startswith("error[tool-006]: arm-none-eabi-gcc is not on the search path")


def test_compiling_needs_no_compiler(
    penstock: CommandLine, model: Path, no_compilers: None
) -> None:
    assert penstock("compile", model, "-t", "cortex-m4").code == 0


@pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("ziglang", "unicorn")),
    reason="the packages of penstock[simulate] are not installed",
)
def test_the_demo_prints_a_line_per_step(penstock: CommandLine) -> None:
    said = penstock("demo", "-o", "out")
    assert said.code == 0
    assert [line[:5] for line in said.err.splitlines()] == ["[1/4]", "[2/4]", "[3/4]", "[4/4]"]
    assert "198 of 200 right" in said.out
    assert [path.name for path in Path().iterdir()] == ["out"]


def test_the_demo_checks_its_tools_first(penstock: CommandLine, no_compilers: None) -> None:
    said = penstock("demo")
    assert said.code == 1
    first, second, *_ = said.err.splitlines()
    assert first == "[1/4] check the compiler and the simulator"
    assert second.startswith("error[tool-001]: ")
    assert list(Path().iterdir()) == []


def test_the_demo_s_script_leaves_nothing_that_git_shows() -> None:
    script = (REPOSITORY / "scripts" / "demo").read_text()
    (folder,) = re.findall(r'"\$root/(\S+?)/\S+"', script)
    assert f"{folder}/" in (REPOSITORY / ".gitignore").read_text().splitlines()
