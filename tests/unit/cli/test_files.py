"""Files that the command line reads and writes: odd names, existing files, interruptions."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from command_line import CommandLine
from penstock import api
from penstock.codegen import bundle
from penstock.codegen.bundle import Bundle, write_bundle
from penstock.codegen.c_text import RESERVED, prefix
from penstock.errors import OutputError
from penstock.execution import run_on_host
from penstock.hardware.load import load_target
from penstock.pipeline.compilation import compile_request
from penstock.pipeline.request import Request

ODD_NAMES = (
    "int", "main", "Main", "m", "string", "stdint", "test", "example", "harness", "3x3", "a b",
    "l'\u00e9t\u00e9 \"x\"", "\u6a21\u578b", "-o", "%s%n", "penstock_view", "x" * 200, "a\nb",
    "[bold]red", ":smile:",
)  # fmt: skip


@pytest.mark.parametrize("name", ODD_NAMES)
def test_c_of_a_model_with_any_name_compiles(
    penstock: CommandLine, model: Path, name: str, host_compilers: Sequence[str]
) -> None:
    shutil.copy(model, f"{name}.tflite")
    said = penstock("compile", f"./{name}.tflite", "-o", "out")
    assert (said.code, said.err) == (0, "")
    sources = sorted(Path("out").glob("*.c"))
    assert len(sources) == 4
    assert all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", source.stem) for source in sources)
    flags = ("-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Iout", "-o", "program")
    subprocess.run([host_compilers[0], *flags, *sources], check=True, timeout=60)
    assert subprocess.run(["./program"], check=False, capture_output=True).returncode == 0


@pytest.mark.parametrize("name", ["main", "harness", "m"])
def test_a_model_named_like_a_runtime_file_runs_on_the_host(
    tmp_path: Path, model: Path, name: str
) -> None:
    path = shutil.copy(model, tmp_path / f"{name}.tflite")
    done = compile_request(Request(str(path), load_target("host")))
    inputs = {v.name: np.zeros(v.type.shape, np.int8) for v in done.model.inputs}
    assert run_on_host(done, [inputs]).tensors


def test_no_prefix_is_reserved() -> None:
    assert all(prefix(word) not in RESERVED for word in RESERVED)
    assert prefix("") == "model"


def test_a_name_that_is_no_unicode_is_taken(penstock: CommandLine, model: Path) -> None:
    name = os.fsdecode(b"\xff\xfe.tflite")
    shutil.copy(model, name)
    said = penstock("compile", name, "-o", "out", "--json")
    assert (said.code, said.err) == (0, "")
    assert said.json


def test_the_folder_is_named_after_the_model_by_default(penstock: CommandLine, model: Path) -> None:
    assert penstock("compile", model).code == 0
    assert Path("two_heads/two_heads.h").is_file()


def test_a_folder_that_exists_is_not_touched(penstock: CommandLine, model: Path) -> None:
    Path("out").mkdir()
    Path("out/precious.txt").write_text("mine")
    said = penstock("compile", model, "-o", "out")
    assert said.code == 1
    assert said.err.startswith("error[output-001]: the output folder exists\n  --> ")
    assert [p.name for p in Path("out").iterdir()] == ["precious.txt"]
    assert [p.name for p in Path().iterdir()] == ["out"]


def test_a_folder_that_penstock_wrote_is_replaced(penstock: CommandLine, model: Path) -> None:
    """Files that the user has added are kept; those that the user has changed need --force."""
    words = ("compile", model, "-o", "out")
    assert penstock(*words, "--package", "all").code == 0
    assert penstock(*words).code == 0
    assert not Path("out/zephyr").exists()
    Path("out/notes.txt").write_text("mine")
    before = {path: path.read_bytes() for path in Path("out").rglob("*") if path.is_file()}
    assert penstock(*words).code == 0
    assert {path: path.read_bytes() for path in before} == before
    Path("out/main.c").write_text("mine")
    Path("out/zephyr").mkdir()
    Path("out/zephyr/CMakeLists.txt").write_text("mine")
    said = penstock(*words)
    what = "files in the output folder were changed or added: main.c"
    assert said.err.startswith(f"error[output-001]: {what}\n")
    assert Path("out/main.c").read_text() == "mine"
    said = penstock(*words, "--package", "zephyr,cmake", "--force")
    assert (said.code, Path("out/main.c").exists()) == (0, True)
    Path("out/main.c").unlink()
    assert penstock(*words, "--package", "zephyr,cmake").code == 0


def test_an_unlisted_file_in_the_way_is_named(tmp_path: Path) -> None:
    first, second = Bundle((("a", b"1"),)), Bundle((("a", b"2"), ("b", b"3")))
    write_bundle(first.with_manifest(), tmp_path / "out")
    (tmp_path / "out" / "b").write_text("mine")
    with pytest.raises(OutputError, match="changed or added: b"):
        write_bundle(second.with_manifest(), tmp_path / "out")
    assert (tmp_path / "out" / "a").read_bytes() == b"1"


def test_an_empty_folder_may_be_there(penstock: CommandLine, model: Path) -> None:
    Path("out").mkdir()
    assert penstock("compile", model, "-o", "out").code == 0


def test_an_output_that_is_a_file_is_not_touched(penstock: CommandLine, model: Path) -> None:
    Path("out").write_text("mine")
    said = penstock("compile", model, "-o", "out")
    assert "error[output-001]: the output is a file" in said.err
    assert Path("out").read_text() == "mine"


@pytest.mark.parametrize("folder", ["file/below", "x" * 300, "x" * 300 + "/below"])
def test_an_unwritable_output_is_an_error(penstock: CommandLine, model: Path, folder: str) -> None:
    Path("file").write_text("mine")
    said = penstock("compile", model, "-o", folder)
    assert said.code == 1
    assert said.err.startswith("error[output-002]: the output folder cannot be written: ")
    assert [p.name for p in Path().iterdir()] == ["file"]


def test_an_interrupted_write_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []

    def interrupted(files: Bundle, folder: Path) -> None:
        (folder / "first.c").write_bytes(files["first.c"])
        written.append("first.c")
        raise KeyboardInterrupt

    monkeypatch.setattr(bundle, "_write_files", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_bundle(Bundle((("first.c", b"int x;"),)), tmp_path / "new" / "parents" / "out")
    assert written == ["first.c"]
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(files: Bundle, folder: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(bundle, "_write_files", full)
    with pytest.raises(OutputError, match="cannot be written: No space left on device"):
        write_bundle(Bundle(()), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_an_archive_is_no_input(penstock: CommandLine, model: Path) -> None:
    np.savez("a.npz", x=np.zeros(3))
    said = penstock("run", model, "--input", "a.npz", "--input", "a.npz", "-t", "host")
    assert said.code == 1
    assert "an archive of arrays" in said.err


def test_an_input_that_promises_more_than_it_holds_is_refused(
    penstock: CommandLine, model: Path
) -> None:
    header = b"{'descr': '|i1', 'fortran_order': False, 'shape': (1099511627776,)}"
    raw = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    Path("a.npy").write_bytes(raw)
    said = penstock("run", model, "--input", "a.npy", "--input", "a.npy", "-t", "host")
    assert said.code == 1
    assert said.err.startswith("error[input-002]: not a .npy file")


def test_an_input_of_another_shape_is_refused(penstock: CommandLine, model: Path) -> None:
    np.save("a.npy", np.zeros((2, 2), np.int8))
    said = penstock("run", model, "--input", "a.npy", "--input", "a.npy", "-t", "host")
    assert said.code == 1
    assert "error[input-003]: the array is int8[2,2], must be int8[" in said.err


@pytest.mark.parametrize(
    ("path", "what"), [("no.npy", "there is no such file"), (".", "this is a")]
)
def test_an_input_that_is_no_file_is_refused(
    penstock: CommandLine, model: Path, path: str, what: str
) -> None:
    said = penstock("run", model, "--input", path, "--input", path, "-t", "host")
    assert said.code == 1
    assert said.err.startswith(f"error[input-002]: {what}")
    assert "numpy.save" not in said.err


def test_a_sequence_for_a_model_without_state_is_refused(
    penstock: CommandLine, model: Path
) -> None:
    np.save("a.npy", np.zeros((3, 1, 8, 7, 4), np.int8))
    said = penstock("run", model, "--input", "a.npy", "--input", "a.npy", "-t", "host")
    assert said.code == 1
    assert "why: the model has no state, so a file holds a single run" in said.err


def test_more_outputs_than_the_model_has_are_refused(
    penstock: CommandLine, model: Path, host_compilers: Sequence[str]
) -> None:
    names = [word for k in range(9) for word in ("--output", f"{k}.npy")]
    said = penstock("run", model, "-t", "host", *names)
    assert said.code == 2
    assert said.err.startswith("error[usage-017]: 9 output files are named, the model has 2")
    assert list(Path().iterdir()) == []


def test_outputs_are_written(
    penstock: CommandLine, model: Path, host_compilers: Sequence[str]
) -> None:
    said = penstock("run", model, "-t", "host", "--output", "y.npy")
    assert (said.code, said.err) == (0, "")
    assert np.load("y.npy").dtype == np.int8


def test_an_output_in_a_missing_folder_is_an_error(
    penstock: CommandLine, model: Path, host_compilers: Sequence[str]
) -> None:
    said = penstock("run", model, "-t", "host", "--output", "nowhere/y.npy")
    assert said.code == 1
    assert said.err.startswith("error[output-003]")


@pytest.mark.parametrize("words", [("compile", "MODEL"), ("explore", "MODEL"), ("demo",)])
def test_an_empty_name_of_a_folder_is_not_taken_for_none(
    penstock: CommandLine, model: Path, words: tuple[str, ...]
) -> None:
    """As where a script's variable is not set: nothing is written elsewhere."""
    Path("something").touch()
    if words == ("demo",):
        pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")
    said = penstock(*(model if word == "MODEL" else word for word in words), "-o", "")
    assert (said.code, [path.name for path in Path().iterdir()]) == (1, ["something"])
    assert said.err.startswith("error[output-001]: ")


def test_a_link_above_the_output_folder_is_followed(penstock: CommandLine, model: Path) -> None:
    """As /tmp is one on macOS."""
    Path("folder").mkdir()
    Path("link").symlink_to("folder")
    assert penstock("compile", model, "-o", "link/out").code == 0
    assert Path("link").is_symlink()
    assert Path("folder", "out", "report.json").is_file()


def test_a_name_is_the_prefix_of_everything_public(penstock: CommandLine, model: Path) -> None:
    said = penstock("compile", model, "--name", "speech", "--package", "make")
    assert said.out.endswith("written to speech/\n")
    files = {path.relative_to("speech").as_posix() for path in Path("speech").rglob("*.*")}
    assert "include/speech.h" in files
    header = Path("speech/include/speech.h").read_text("utf-8")
    assert "speech_run(" in header
    assert model.stem not in header.replace(model.name, "")
    report = json.loads(Path("speech/report.json").read_text("utf-8"))
    assert "--name speech" in report["command"]
    done = api.compile(model, name="speech")
    assert done.bundle("make")["include/speech.h"] == header.encode()
