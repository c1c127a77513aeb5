"""What is checked before the work begins: output directories and tools; and `--force`."""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from command_line import CommandLine
from penstock import api
from penstock.api import compiling
from penstock.codegen import bundle
from penstock.codegen.bundle import MANIFEST, Bundle, write_bundle
from penstock.codegen.names import c_prefix
from penstock.errors import InternalError, OutputError
from penstock.pipeline.graphs import read
from penstock.toolchains import host


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling is an error."""

    def refuse(*words: object, **settings: object) -> None:
        raise InternalError("test-001", "the work began")

    monkeypatch.setattr(compiling, "compile_request", refuse)
    monkeypatch.setattr("penstock.api.explored.explore_request", refuse)


@pytest.fixture
def no_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """No program on the search path, and none of the packages."""
    monkeypatch.setenv("PATH", "")
    for name in ("ziglang", "unicorn"):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    host.host_compiler.cache_clear()


@pytest.mark.parametrize("verb", ["compile", "explore", "profile"])
def test_the_output_directory_is_checked_first(
    penstock: CommandLine, model: Path, no_work: None, verb: str
) -> None:
    Path("out").mkdir()
    Path("out/mine").write_text("mine")
    said = penstock(verb, model, "-o", "out")
    assert said.err.startswith("error[output-001]: the output folder exists\n")
    assert [path.name for path in Path().rglob("*")] == ["out", "mine"]


def test_the_default_output_directory_is_checked_first(
    penstock: CommandLine, model: Path, no_work: None
) -> None:
    Path("two_heads").write_text("mine")
    assert penstock("compile", model).err.startswith("error[output-001]: the output is a file\n")


@pytest.mark.parametrize("name", ["zoo:lenet5", "zoo:mobilenet_v1:alpha=0.25,resolution=96", ""])
def test_the_default_output_directory_has_the_name_of_the_c_code(model: Path, name: str) -> None:
    wanted = name or str(model)
    assert api.default_folder(wanted) == c_prefix(read(wanted).name)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("run",), "tool-001"),
        (("run", "--compiler", "gcc"), "tool-006"),
        (("run", "-t", "host"), "tool-004"),
        (("run", "-t", "cortex-m55", "--compiler", "gcc"), "tool-006"),
        (("profile",), "tool-001"),
        (("verify",), "tool-004"),
    ],
)
def test_tools_are_checked_first(
    penstock: CommandLine, model: Path, no_work: None, no_tools: None,
    words: tuple[str, ...], code: str,
) -> None:  # fmt: skip
    verb, *others = words
    said = penstock(verb, model, *others)
    host.host_compiler.cache_clear()
    assert said.err.startswith(f"error[{code}]: ")


@pytest.mark.parametrize(
    ("files", "error"),
    [
        (
            ("a.npy", "b.npy", "c.npy"),
            "error[usage-017]: 3 output files are named, the model has",
        ),
        (("a.npy", "nowhere/b.npy"), "error[output-003]: the output cannot be written: No such"),
        ((".",), "error[output-003]: the output cannot be written: Is a directory"),
    ],
)
def test_output_files_are_checked_first(
    penstock: CommandLine, model: Path, no_work: None, files: tuple[str, ...], error: str
) -> None:
    words = [word for file in files for word in ("--output", file)]
    assert penstock("run", model, "-t", "host", *words).err.startswith(error)


@pytest.mark.parametrize(
    "option",
    [
        ("--dimension", "foo=3"),
        ("--state", "a=b"),
        ("--workers", "-3"),
    ],
)
@pytest.mark.parametrize("command", ["compile", "explore", "profile"])
def test_wrong_options_are_reported_before_an_existing_folder(
    penstock: CommandLine, model: Path, command: str, option: tuple[str, str]
) -> None:
    Path("out").mkdir()
    Path("out/a").touch()
    said = penstock(command, model, "-t", "host", "-o", "out", *option)
    assert said.err.startswith("error[usage-")
    assert said.code == 2


def test_force_replaces_files_of_the_same_names_and_keeps_others(
    penstock: CommandLine, model: Path
) -> None:
    assert penstock("compile", model, "-o", "out").code == 0
    first = {path: path.read_bytes() for path in Path("out").iterdir() if path.is_file()}
    Path("out/two_heads.c").write_text("edited")
    Path("out/mine").write_text("mine")
    said = penstock("compile", model, "-o", "out", "--force")
    assert (said.code, said.err) == (0, "")
    assert Path("out/mine").read_text() == "mine"
    assert {path: path.read_bytes() for path in first} == first
    assert {path.name for path in Path().iterdir()} == {"out"}


def test_force_that_fails_changes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    (folder / "b").mkdir(parents=True)
    (folder / "a").write_text("old")
    files = Bundle((("new/a", b"new"), ("a", b"new"), ("b", b"a folder is in the way")))
    with pytest.raises(OutputError, match="Is a directory: b"):
        write_bundle(files, folder, force=True)
    assert sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*")) == [
        "out", "out/a", "out/b",
    ]  # fmt: skip
    assert (folder / "a").read_text() == "old"


def test_force_removes_files_of_an_earlier_bundle_that_nobody_has_changed(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    first = Bundle((("a.c", b"1"), ("src/b.c", b"2"), ("edited.c", b"3"), ("kept/k.c", b"4")))
    write_bundle(first.with_manifest(), folder)
    (folder / "edited.c").write_text("by the user")
    (folder / "mine.c").write_text("by the user")
    outside = tmp_path / "outside.c"
    outside.write_text("")
    listed = (folder / MANIFEST).read_text()
    (folder / MANIFEST).write_text(f"{listed}{hashlib.sha256().hexdigest()}  ../outside.c\n")
    files = Bundle((("a.c", b"5"), ("kept/n.c", b"6"), ("in_the_way", b"")))
    (folder / "in_the_way").mkdir()
    with pytest.raises(OutputError, match="Is a directory"):
        write_bundle(files.with_manifest(), folder, force=True)
    assert (folder / "src/b.c").read_bytes() == b"2"
    (folder / "in_the_way").rmdir()
    write_bundle(files.with_manifest(), folder, force=True)
    found = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
    assert found == [MANIFEST, "a.c", "edited.c", "in_the_way", "kept/n.c", "mine.c"]
    assert not (folder / "src").exists()
    assert outside.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("force", [False, True])
def test_a_signal_while_files_are_written_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, force: bool
) -> None:
    write: Callable[[Bundle, Path], None] = bundle._write_files
    came: list[int] = []

    def interrupted(files: Bundle, folder: Path) -> None:
        os.kill(os.getpid(), number)
        write(files, folder)

    def came_in(signal_number: int, frame: object) -> None:
        came.append(signal_number)
        raise KeyboardInterrupt

    monkeypatch.setattr(bundle, "_write_files", interrupted)
    before = signal.signal(number, came_in)
    try:
        with pytest.raises(KeyboardInterrupt):
            write_bundle(Bundle((("a", b""),)), tmp_path / "new" / "out", force=force)
    finally:
        signal.signal(number, before)
    assert came == [number]
    assert list(tmp_path.iterdir()) == []
