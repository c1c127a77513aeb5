"""The same model yields the same files in any process and folder, and with any hash seed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

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


def test_two_processes_write_the_same_bytes(tmp_path: Path) -> None:
    model = Path(path_of("strided_residual"))
    folder = tmp_path / "another place"
    folder.mkdir()
    shutil.copy(model, folder)
    first = files_of(str(model), tmp_path / "one", "1")
    second = files_of(model.name, folder, "2")  # relative now
    assert first.keys() == second.keys()
    assert {"report.json", "report.html", "CMakeLists.txt"} <= first.keys()
    assert [name for name in first if first[name] != second[name]] == []
    assert not any(str(tmp_path).encode() in content for content in first.values())
