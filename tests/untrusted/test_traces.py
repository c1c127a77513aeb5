"""Commands on hostile files neither read nor write outside of their folders: their calls of the
operating system are recorded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

import penstock
from tools.onnx_writer import Model
from untrusted.test_untrusted_models import GOOD, external, hostile_folder

TRACED = Path(__file__).with_name("traced.py")
OURS = Path(penstock.__file__).parents[2]
SYSTEM = tuple(
    os.path.realpath(path)
    for path in (
        *sys.path, sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib"), OURS, "/dev", "/proc",
        "/usr", "/lib", "/lib64", "/sys", "/etc/ld.so.cache", "/etc/localtime", "/etc/mime.types",
        Path.home() / ".cache",
    )
    if path
)  # fmt: skip
"""Python, its packages and what they read of the system."""


@dataclass(frozen=True)
class Trace:
    """What a command did in a folder.

    read, written: files outside of Python and its packages, as paths relative to the folder."""

    code: int
    read: frozenset[str]
    written: frozenset[str]
    started: tuple[str, ...]

    @property
    def outside(self) -> set[str]:
        """Files that are not in the folder."""
        return {path for path in self.read | self.written if path.startswith("..")}


def trace(folder: Path, *words: str) -> Trace:
    """The trace of a command in a folder of a folder with a secret; temporary files are in it."""
    record, temporary = folder.parent / "record.json", folder.parent / "temporary"
    temporary.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, str(TRACED), str(record), *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    found = json.loads(record.read_text("utf-8"))
    opened = [
        (path, mode)
        for path, mode in found["opened"]
        if not path.startswith((*SYSTEM, str(temporary))) and "/.git/" not in path
    ]  # without the commit of penstock itself, which reports state
    changed = {
        path
        for _, *paths in found["changed"]
        for path in map(os.path.realpath, paths)
        if not path.startswith((*SYSTEM, str(temporary)))
    }
    real = os.path.realpath(folder)
    read, written = (
        frozenset(os.path.relpath(path, real) for path, mode in opened if mode == one)
        for one in "rw"
    )
    changes = frozenset(os.path.relpath(path, real) for path in changed)
    return Trace(done.returncode, read, written | changes, tuple(found["started"]))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder that a stranger has sent, beside a secret."""
    (tmp_path / "secret").write_bytes(bytes(12))
    inside = tmp_path / "sent"
    inside.mkdir()
    return inside


def test_a_model_is_compiled_into_its_folder(folder: Path) -> None:
    """The trace sees what a command reads and writes."""
    (folder / "m.tflite").write_bytes(GOOD.read_bytes())
    found = trace(folder, "compile", "m.tflite", "-o", "out")
    assert (found.code, found.outside, found.started) == (0, set(), ())
    assert "m.tflite" in found.read
    assert "out" in found.written
    assert all(path.startswith((".out-", "out")) for path in found.written)


@pytest.mark.parametrize("location", ["up/secret", "..\\secret"])
def test_external_data_elsewhere_is_not_opened(folder: Path, location: str) -> None:
    (folder / "link").symlink_to("../secret")
    (folder / "up").symlink_to("..")
    (folder / "m.onnx").write_bytes(external(location=location))
    found = trace(folder, "compile", "m.onnx", "-o", "out")
    assert (found.code, found.outside, found.written) == (1, set(), frozenset())
    assert found.read == {"m.onnx"}


def test_an_output_folder_with_links_is_not_written(folder: Path) -> None:
    (folder / "net.tflite").write_bytes(GOOD.read_bytes())
    (folder / "net").mkdir()
    (folder / "net" / "net.c").symlink_to("../../secret")
    (folder / "net" / ".penstock-files").write_text("0  net.c\n0  ../../secret\n")
    found = trace(folder, "compile", "net.tflite", "--force")
    assert (found.code, found.outside, found.written) == (1, set(), frozenset())


def test_a_hostile_board_starts_nothing(folder: Path) -> None:
    from penstock.hardware.load import target_text

    (folder / "m.tflite").write_bytes(GOOD.read_bytes())
    text = target_text("cortex-m4").replace('"-mcpu=', '"-fplugin=../secret", "-mcpu=')
    (folder / "board.toml").write_text(text)
    found = trace(folder, "profile", "m.tflite", "--target", "board.toml")
    assert (found.code, found.outside, found.started) == (1, set(), ())
    assert found.written == frozenset()


def test_a_scan_stays_in_its_folder_and_writes_nothing(folder: Path) -> None:
    hostile_folder(folder)
    (folder / "data.onnx").write_bytes(external(location="../secret"))
    model = Model()
    (folder / "fine.onnx").write_bytes(model.raw(model.node("Relu", model.input(1, 4))))
    found = trace(folder, "scan", ".", "--size-limit", "4MiB", "--stop-after", "read")
    assert (found.code, found.outside, found.written) == (4, set(), frozenset())
    assert found.started == ()
    assert "fine.onnx" in found.read
