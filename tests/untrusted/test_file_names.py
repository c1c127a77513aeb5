"""Names of files may contain anything: control characters are shown as escapes everywhere."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from command_line import CommandLine

GOOD = Path(__file__).parents[1] / "models" / "two_heads.tflite"
NAME = "a\x1b[31m\n*/??/<b>\u202e$(x)`y`#.tflite".replace("/", "-")
SHOWN = NAME.replace("\x1b", "\\x1b").replace("\n", "\\n").replace("\u202e", "\\u202e")


def is_visible(text: str) -> bool:
    """Whether a text has no characters that terminals obey or nobody sees."""
    return all(c.isprintable() or c in "\n\t" for c in text)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / NAME
    shutil.copy(GOOD, path)
    return path


def test_generated_files_show_escapes(model: Path, penstock: CommandLine) -> None:
    said = penstock("compile", NAME, "-o", "out\x1b[2J", "--package", "all")
    assert (said.code, is_visible(said.out), is_visible(said.err)) == (0, True, True)
    assert said.out.startswith(f"{SHOWN} for cortex-m4")
    assert "written to out\\x1b[2J/" in said.out
    for path in Path("out\x1b[2J").rglob("*"):
        if path.is_file() and path.suffix != ".pack":
            assert is_visible(path.read_text("utf-8")), path
    header = next(Path("out\x1b[2J", "make", "include").iterdir())
    assert SHOWN.replace("??", "? ?") in header.read_text("utf-8")


def test_the_command_of_the_summary_finds_the_file(model: Path, penstock: CommandLine) -> None:
    if shutil.which("bash") is None:
        pytest.skip("there is no bash here")
    said = penstock("compile", NAME, "-o", "out")
    command = next(line for line in said.out.splitlines() if "penstock compile" in line)
    words = f"printf %s {command.split('penstock compile')[1].split('--target')[0]}"
    found = subprocess.run(["bash", "-c", words], capture_output=True, check=True)
    assert found.stdout.decode() == NAME


@pytest.mark.parametrize(
    "words",
    [
        ("compile", "none\x1b[2J\n.tflite"),
        ("compile", "junk\x1b[2J\n.tflite"),
        ("compile", NAME, "--target", "none\x1b[2J.toml"),
        ("compile", NAME, "--target", "none\x1b[2J"),
        ("compile", NAME, "-o", "junk\x1b[2J\n.tflite"),
        ("verify", NAME, "--goldens", "none\x1b[2J\n.npz"),
        ("verify", NAME, "--goldens", "junk\x1b[2J\n.tflite"),
        ("run", NAME, "--input", "none\x1b[2J\n.npy"),
        ("run", NAME, "--output", "none\x1b[2J/y.npy"),
        ("scan", "none\x1b[2J\n"),
        ("compare", "none\x1b[2J\n", "junk\x1b[2J\n.tflite"),
        ("golden", "junk\x1b[2J\n.tflite", "-o", "x\x1b.npz"),
        ("comp\x1b[2Jile",),
    ],
)
def test_errors_show_escapes(model: Path, penstock: CommandLine, words: tuple[str, ...]) -> None:
    Path("junk\x1b[2J\n.tflite").write_bytes(b"junk")
    said = penstock(*words)
    assert said.code in (1, 2)
    assert is_visible(said.err), repr(said.err)
    assert "\\x1b" in said.err


def test_a_scan_shows_escapes(model: Path, penstock: CommandLine) -> None:
    Path("junk\x1b[2J\n.tflite").write_bytes(b"junk")
    said = penstock("scan", ".", "--stop-after", "read")
    assert is_visible(said.out + said.err)
    assert "junk\\x1b[2J\\n.tflite" in said.out
