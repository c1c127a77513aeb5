"""Builds wheel and source distribution, installs the wheel outside the repository, and compiles a
network with it; then checks that pip finds wheels of all dependencies for other Python versions.

python -m tools.installation [--python 3.12 3.13 3.14]

Needs a package index, and `build` (the extra `develop`).  Exits with 1 if a step fails.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from tools.install_weight import folder_bytes, megabytes

ROOT = Path(__file__).parent.parent
EXTRAS = "simulate,reference,optimal"
"""Extras whose dependencies must have wheels, too."""


def main(arguments: Sequence[str]) -> int:
    """Run all steps; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.installation", description=__doc__)
    parser.add_argument("--python", nargs="*", default=["3.12", "3.13", "3.14"], metavar="VERSION")
    versions: list[str] = parser.parse_args(arguments).python
    with tempfile.TemporaryDirectory(prefix="penstock-installation-") as name:
        folder = Path(name)
        try:
            _run([sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)], folder)
            (wheel,) = folder.glob("*.whl")
            _install_and_compile(wheel, folder)
            for version in versions:
                _resolve(wheel, version, folder)
        except subprocess.CalledProcessError as error:
            print(f"error: {' '.join(error.cmd)}\n{error.stdout}{error.stderr}", file=sys.stderr)
            return 1
    return 0


def _run(command: Sequence[str], folder: Path, path: str | None = None) -> str:
    """Run a command in a folder and return its output; `path`: the variable PATH."""
    environment = {**os.environ} if path is None else {**os.environ, "PATH": path}
    done = subprocess.run(
        command, cwd=folder, env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout


def _install_and_compile(wheel: Path, folder: Path) -> None:
    """Install a wheel into a new environment and compile a network, without tools in PATH."""
    environment = folder / "environment"
    _run([sys.executable, "-m", "venv", str(environment)], folder)
    python = str(environment / "bin" / "python")
    began = time.monotonic()
    _run([python, "-m", "pip", "install", "--quiet", str(wheel)], folder)
    installed = time.monotonic() - began
    outside = folder / "elsewhere"
    outside.mkdir()
    _run([python, "-m", "penstock", "compile", "zoo:lenet5", "-o", "out"], outside, path="")
    assert (outside / "out" / "lenet5.c").is_file()
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    size = megabytes(folder_bytes(environment))
    print(f"Python {version}: installed in {installed:.0f} s, {size}, compiled zoo:lenet5")


def _resolve(wheel: Path, version: str, folder: Path) -> None:
    """Let pip choose wheels of all dependencies for another Python version."""
    report = folder / f"{version}.json"
    options = ["--dry-run", "--ignore-installed", "--quiet", "--only-binary=:all:"]
    target = ["--python-version", version, "--target", str(folder / version)]
    wanted = ["--report", str(report), f"{wheel}[{EXTRAS}]"]
    _run([sys.executable, "-m", "pip", "install", *options, *target, *wanted], folder)
    wheels = [_wheel_name(item) for item in json.loads(report.read_text("utf-8"))["install"]]
    tag = f"-cp{version.replace('.', '')}-"
    specific = sum(tag in name for name in wheels)
    print(
        f"Python {version}: wheels of {len(wheels)} packages, {specific} of them {tag[1:-1]} only"
    )


def _wheel_name(item: Mapping[str, Any]) -> str:
    path = urlsplit(item["download_info"]["url"]).path
    return PurePosixPath(unquote(path)).name


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
