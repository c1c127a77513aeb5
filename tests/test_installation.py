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
NETWORK = str(ROOT / "tests" / "models" / "two_heads.tflite")
BUILT_FROM = ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in", "ARCHITECTURE.md")


def test_wheels_work_outside_the_repository(tmp_path: Path) -> None:
    """The core's, and that of an accelerator. Built from copies of the sources, so that nothing is
    written into the repository. Compiled loops run as Python: compiling them again would take
    longer than the rest."""
    pytest.importorskip("build", reason="the extra 'develop' is not installed")
    sources, package, site = tmp_path / "sources", tmp_path / "package", tmp_path / "site"
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    for name in (*BUILT_FROM, "CHANGELOG.md"):
        sources.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, sources)
    shutil.copytree(ROOT / "src", sources / "src", ignore=ignored)
    shutil.copytree(ROOT / "docs" / "how-to", sources / "docs" / "how-to")
    shutil.copytree(ROOT / "accelerators" / "penstock-vanilla", package, ignore=ignored)
    install_wheel(sources, site, tmp_path / "wheels")
    without_tools = {"PATH": str(tmp_path), "PYTHONPATH": str(site), "NUMBA_DISABLE_JIT": "1"}
    environment = {**os.environ, **without_tools}

    def printed(program: str) -> str:
        words = [sys.executable, "-c", program]
        return subprocess.check_output(words, cwd=tmp_path, env=environment, text=True).strip()

    assert Path(printed("import penstock; print(penstock.__file__)")).is_relative_to(site)
    run("penstock", "compile", NETWORK, "-o", "out", cwd=tmp_path, environment=environment)
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"two_heads.c", "two_heads.h", "report.html"} <= written
    run("penstock", "targets", "--show", "cortex-m55", cwd=tmp_path, environment=environment)
    where = "from penstock.guides import guide; print(guide('add-a-target').partition(': ')[2])"
    guide = Path(printed(where))
    assert guide.is_relative_to(site)
    assert guide.read_text("utf-8").startswith("# Add a target\n")

    install_wheel(package, site, tmp_path / "other_wheels")
    assert Path(printed("import penstock_vanilla as v; print(v.__file__)")).is_relative_to(site)
    words = ("compile", NETWORK, "--accelerator", "vanilla", "-o", "beside")
    run("penstock", *words, cwd=tmp_path, environment=environment)
    assert "vanilla.c" in {path.name for path in (tmp_path / "beside").iterdir()}


def install_wheel(sources: Path, site: Path, wheels: Path) -> None:
    """Build a wheel in a new folder, and install it into a folder of packages."""
    run("build", "--wheel", "--no-isolation", "--outdir", str(wheels), str(sources))
    (wheel,) = wheels.iterdir()
    options = ("--quiet", "--no-deps", "--no-index", "--no-compile", "--target", str(site))
    run("pip", "install", *options, str(wheel))


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
