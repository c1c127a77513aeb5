"""Tutorials with shell commands run as they are written, in an empty folder."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from command_line import CommandLine
from installed import install

ROOT = Path(__file__).parent.parent
PAGES = tuple(
    page
    for page in sorted((ROOT / "docs" / "tutorials").glob("*.md"))
    if "```sh" in page.read_text("utf-8")
)
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# (\S+\.\w+)\n")
ELSEWHERE = ("python3 -m venv", ". ", "pip install", "cmake")
"""Commands that the test does not run: they set up an environment or need other programs."""


def test_there_are_tutorials() -> None:
    assert {page.stem for page in PAGES} >= {
        "first-model",
        "my-board",
        "streaming-audio",
        "an-accelerator",
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_works_as_written(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Commands succeed, a TOML block is the file that its first line names, and a block without a
    language is the output of the Python block before it."""
    pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")
    monkeypatch.chdir(tmp_path)
    penstock, names, kinds = CommandLine(monkeypatch, capsys), {}, set[str]()
    for kind, text in BLOCK.findall(page.read_text("utf-8")):
        kinds.add(kind)
        if kind == "sh":
            for line in text.splitlines():
                run(line, penstock, monkeypatch)
        elif kind == "toml":
            named = FILE.match(text)
            assert named is not None
            Path(named[1]).write_text(text, "utf-8")
        elif kind == "python":
            capsys.readouterr()
            exec(compile(text, str(page), "exec"), names)
        elif kind == "":
            assert capsys.readouterr().out == text
    assert kinds <= {"sh", "toml", "python", "c", ""}


def run(line: str, penstock: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a line of a shell block."""
    words = shlex.split(line)
    if words[0] == "penstock":
        command, redirected = words[1:], None
        if ">" in command:
            command, redirected = command[:-2], command[-1]
        said = penstock(*command)
        assert said.code == 0, said.err
        if redirected:
            Path(redirected).write_text(said.out, "utf-8")
    elif words[0] == "cp":
        shutil.copy(ROOT / words[1].removeprefix("path/to/penstock/"), words[2])
    else:
        assert line.startswith(ELSEWHERE), line
        if "my_npu" in line:
            install_backend(Path("my_npu"), monkeypatch.syspath_prepend)


def install_backend(package: Path, add_path: Callable[[str], None]) -> None:
    """Install the backend package of a folder for this process, as pip does."""
    site = Path("site").resolve()
    install(site, "my_npu", "0.1", "my_npu", "my_npu.backend:MyNpuBackend")
    add_path(str(site))
    add_path(str((package / "src").resolve()))
