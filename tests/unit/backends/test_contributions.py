"""Packages of accelerators contribute formats, rungs and kinds of accelerators to commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import CommandLine
from installed import install
from penstock import api
from penstock.backends.contributions import contributions
from penstock.errors import BackendError, UsageError
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph

MODULE = """
from penstock.uma import FileFormat, FileRunner, UMABackend, UnsupportedError

class Backend(UMABackend):
    target_name = "{name}"

def write(program, source):
    SEEN.append(program)
    if len(SEEN) == 1:
        raise UnsupportedError("toy-001", "toys cannot state it", where=source.where)
    return f"{{source.where}}: {{len(program.inputs)}}".encode()

LISTED = FileFormat("{{prefix}}.toy", write)
SEEN = []
SIGN = FileRunner(
    "listed", "toys", "the toy's outputs", lambda: None,
    lambda file, given, size, target: bytes(b if target.name == "toy" else 0 for b in given),
)
"""
FILE = """
[formats.listed]
help = "a list for toys"
object = "{package}:LISTED"

[rungs.sign]
help = "the toy's own judge"
object = "{package}:SIGN"

[kinds.toy-car]
help = "a car"
templates = "new"
next = "drive {{folder}}/{{name}}.txt"
example = "penstock backend new my_car --kind toy-car"
"""


def bring(folder: Path, name: str = "toy", file: str = FILE) -> Path:
    """Install a package whose accelerator has a name, with a file of contributions."""
    package = f"package_of_{name}_{folder.name}"  # of this test alone: Python caches modules
    install(folder, package, "1.0", name, f"{package}:Backend")
    place = folder / package
    place.mkdir()
    (place / "__init__.py").write_text(MODULE.format(name=name), "utf-8")
    (place / "penstock.toml").write_text(file.format(package=package), "utf-8")
    return place


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def penstock(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(monkeypatch, capsys)


def identity() -> Graph:
    """A network whose output has the elements of its input."""
    builder = GraphBuilder("same")
    x = builder.input((1, 4, 4, 2))
    return builder.build(builder.max_pool2d(x, 1))


def test_help_texts_list_them(folder: Path, penstock: CommandLine) -> None:
    bring(folder)
    said = " ".join(penstock("compile", "--help").out.split())
    assert "c (C code), or listed (a list for toys)" in said
    assert "core, arm-runner, sign)" in " ".join(penstock("verify", "--help").out.split())
    assert "penstock backend new my_car --kind toy-car" in penstock("backend", "new", "--help").out


def test_a_format_writes_another_schedule_if_it_cannot_state_the_first(
    folder: Path, penstock: CommandLine
) -> None:
    bring(folder)
    said = penstock("compile", "zoo:lenet5", "--target", "host", "--format", "listed", "-o", "out")
    assert said.code == 0, said.err
    assert (folder / "out/lenet5.toy").read_text() == "zoo:lenet5: 1"
    assert not list((folder / "out").glob("*.c"))
    with pytest.raises(UsageError, match="there is no format 'liste'"):
        api.compile(identity(), "host").file("liste")


def test_a_rung_judges_by_its_own_software(folder: Path) -> None:
    bring(folder)
    with pytest.raises(UsageError, match="the rung sign runs toys only"):
        api.verify(identity(), "host", last_rung="sign")
    found = api.verify(identity(), "host", last_rung="sign", accelerators=("toy",))
    assert [rung.step for rung in found.rungs][-1] == "sign"
    assert found.rungs[-1].note == "the toy's outputs"
    assert found.passed


def test_a_broken_file_is_named_when_its_accelerator_is_requested(
    folder: Path, penstock: CommandLine
) -> None:
    bring(folder, file="[formats.listed]\nhelp = 7")
    bring(folder, "other")
    assert penstock("compile", "--help").code == 0
    assert contributions("formats")["listed"].accelerators == ("other",)
    with pytest.raises(BackendError, match="cannot be loaded") as caught:
        api.compile(identity(), "host", accelerators=("toy",))
    assert "formats.listed does not consist of the texts help, object" in caught.value.why
    for text in ("help", "[format.listed]\nhelp = ''", "formats = 1"):
        (folder / f"package_of_toy_{folder.name}/penstock.toml").write_text(text)
        with pytest.raises(BackendError):
            api.compile(identity(), "host", accelerators=("toy",))


def test_two_packages_with_one_name_clash(folder: Path) -> None:
    bring(folder)
    bring(folder, "other")
    with pytest.raises(BackendError) as caught:
        api.compile(identity(), "host").file("listed")
    assert "contributes formats.listed, too" in caught.value.why


def test_an_object_that_cannot_be_imported_is_named(folder: Path) -> None:
    bring(folder, file=FILE.replace(":LISTED", ":LOST"))
    with pytest.raises(BackendError) as caught:
        api.compile(identity(), "host").file("listed")
    assert ":LOST cannot be imported" in caught.value.why
    text = (
        (folder / f"package_of_toy_{folder.name}/penstock.toml").read_text().replace("LOST", "SIGN")
    )
    (folder / f"package_of_toy_{folder.name}/penstock.toml").write_text(text)
    with pytest.raises(BackendError, match="SIGN is no FileFormat"):
        api.compile(identity(), "host").file("listed")
