"""Folders of strangers: outputs do not follow links, and lists of files do not leave the folder."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from command_line import CommandLine
from penstock import api
from penstock.codegen.bundle import MANIFEST
from penstock.errors import OutputError

MODEL = Path(__file__).parents[1] / "models" / "two_heads.tflite"
SECRET = b"do not touch"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file beside the output folder."""
    path = tmp_path / "elsewhere" / "secret.c"
    path.parent.mkdir()
    path.write_bytes(SECRET)
    return path


def listed(*names: str) -> str:
    """A manifest that calls the secret an unchanged file of an earlier command."""
    digest = hashlib.sha256(SECRET).hexdigest()
    return "".join(f"{digest}  {name}\n" for name in names)


@pytest.mark.parametrize("force", [(), ("--force",)])
@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("out", "elsewhere"),
        ("out", "nowhere"),
        ("out/src", "../elsewhere"),
        ("out/two_heads.c", "../elsewhere/secret.c"),
        ("out/report.json", "../nowhere"),
        ("out/a/b/c", "/"),
    ],
)
def test_an_output_folder_with_a_link_is_refused(
    penstock: CommandLine, secret: Path, link: str, target: str, force: tuple[str, ...]
) -> None:
    Path(link).parent.mkdir(parents=True, exist_ok=True)
    Path(link).symlink_to(target)
    if link != "out" and not force:
        Path("out", MANIFEST).touch()
    said = penstock("compile", MODEL, "-o", "out", *force)
    assert said.code == 1
    assert said.err.startswith("error[output-005]: the output folder ")
    assert f"{link}\n" in said.err
    assert (secret.read_bytes(), len(list(secret.parent.iterdir()))) == (SECRET, 1)
    assert Path(link).is_symlink()


@pytest.mark.parametrize("command", ["explore", "profile"])
def test_other_commands_refuse_it_too(penstock: CommandLine, secret: Path, command: str) -> None:
    Path("out").symlink_to(secret.parent)
    said = penstock(command, MODEL, "-t", "host", "-o", "out", "--force")
    assert said.err.startswith("error[output-005]")


def test_the_api_refuses_it_too(secret: Path, tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to(secret.parent)
    compiled = api.compile(MODEL)
    with pytest.raises(OutputError):
        compiled.write(tmp_path / "out", force=True)


@pytest.mark.parametrize("inside", ["..", "../elsewhere", "a/../../elsewhere"])
@pytest.mark.parametrize("separator", ["/", "\\"])
def test_a_manifest_does_not_name_files_elsewhere(
    penstock: CommandLine, secret: Path, inside: str, separator: str
) -> None:
    """The files of an earlier command that this one does not write are removed."""
    assert penstock("compile", MODEL, "-o", "out").code == 0
    name = f"{inside}/secret.c".replace("/", separator)
    with Path("out", MANIFEST).open("a") as file:
        file.write(listed(name, str(secret)))
    assert penstock("compile", MODEL, "-o", "out").code == 0
    assert secret.read_bytes() == SECRET


def test_a_hard_link_is_replaced_not_written_to(penstock: CommandLine, secret: Path) -> None:
    assert penstock("compile", MODEL, "-o", "out").code == 0
    Path("out", "two_heads.c").unlink()
    Path("out", "two_heads.c").hardlink_to(secret)
    assert penstock("compile", MODEL, "-o", "out", "--force").code == 0
    assert secret.read_bytes() == SECRET
