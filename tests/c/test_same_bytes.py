"""The same model yields the same files in any process and folder, and with any hash seed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from available import path_of

COMPILE = """
import sys
from penstock import api
api.compile(sys.argv[1], "cortex-m4").write("out")
"""


def files_of(model: str, folder: Path, hash_seed: str) -> dict[str, bytes]:
    """The files that a process of its own writes into `folder`."""
    folder.mkdir(exist_ok=True)
    subprocess.run(
        [sys.executable, "-W", "error", "-c", COMPILE, model],
        cwd=folder,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
    )
    out = folder / "out"
    return {str(p.relative_to(out)): p.read_bytes() for p in out.rglob("*") if p.is_file()}


@pytest.mark.parametrize("model", ["strided_residual", "zoo:lenet5"])
def test_two_processes_write_the_same_bytes(model: str, tmp_path: Path) -> None:
    first = files_of(path_of(model), tmp_path / "one", "1")
    given = path_of(model)
    if not model.startswith("zoo:"):
        folder = tmp_path / "another place"
        folder.mkdir()
        shutil.copy(given, folder)
        given = Path(given).name  # relative now
    second = files_of(given, tmp_path / "another place", "2")
    assert first.keys() == second.keys()
    assert {"report.json", "report.html", "CMakeLists.txt"} <= first.keys()
    assert [name for name in first if first[name] != second[name]] == []
    assert not any(str(tmp_path).encode() in content for content in first.values())
