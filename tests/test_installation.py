"""An installed wheel works outside the repository, without a compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.install_weight import closure, requirements, size_bytes

ROOT = Path(__file__).parent.parent
BUILT_FROM = ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in", "ARCHITECTURE.md")


def test_a_wheel_works_outside_the_repository(tmp_path: Path) -> None:
    """Built from copies of the sources, so that nothing is written into the repository. Compiled
    loops run as Python: compiling them again would take longer than the rest."""
    pytest.importorskip("build", reason="the extra 'develop' is not installed")
    sources, wheels, site = tmp_path / "sources", tmp_path / "wheels", tmp_path / "site"
    for name in (*BUILT_FROM, "CHANGELOG.md"):
        sources.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, sources)
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", sources / "src", ignore=ignored)
    shutil.copytree(ROOT / "docs" / "how-to", sources / "docs" / "how-to")
    run("build", "--wheel", "--no-isolation", "--outdir", str(wheels), str(sources))
    (wheel,) = wheels.iterdir()
    options = ("--quiet", "--no-deps", "--no-index", "--no-compile", "--target", str(site))
    run("pip", "install", *options, str(wheel))
    place = "import penstock; print(penstock.__file__)"
    without_tools = {"PATH": str(tmp_path), "PYTHONPATH": str(site), "NUMBA_DISABLE_JIT": "1"}
    environment = {**os.environ, **without_tools}
    found = subprocess.check_output(
        [sys.executable, "-c", place], cwd=tmp_path, env=environment, text=True
    )
    assert Path(found.strip()).is_relative_to(site)
    run("penstock", "compile", "zoo:lenet5", "-o", "out", cwd=tmp_path, environment=environment)
    assert {"lenet5.c", "lenet5.h", "report.html"} <= {p.name for p in (tmp_path / "out").iterdir()}
    run("penstock", "targets", "--show", "cortex-m55", cwd=tmp_path, environment=environment)
    where = "from penstock.guides import guide; print(guide('add-a-target').partition(': ')[2])"
    guide = subprocess.check_output(
        [sys.executable, "-c", where], cwd=tmp_path, env=environment, text=True
    )
    assert Path(guide.strip()).is_relative_to(site)
    assert Path(guide.strip()).read_text("utf-8").startswith("# Add a target\n")


def run(*words: str, cwd: Path | None = None, environment: dict[str, str] | None = None) -> None:
    """Run a Python module; fails with its output if it fails."""
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_requirement_of_the_core_is_weighed() -> None:
    direct = requirements("penstock")
    assert "numpy" in direct
    assert "unicorn" not in direct
    assert "unicorn" in requirements("penstock", ["simulate"])
    assert [name for name in direct if size_bytes(name) == 0] == []
    assert {"numba", "llvmlite", "numpy"} <= closure(["numba"])
    assert size_bytes("no-such-package") == 0
