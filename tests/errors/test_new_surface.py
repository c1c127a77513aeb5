"""Wrong inputs on the command line and in Python: what, where, why or help; nothing is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import penstock as package
from command_line import CommandLine
from penstock.errors import PenstockError

COMMANDS: dict[str, tuple[str, str, str]] = {
    "no command of this name": ("compil good.tflite", "usage-020", "did you mean 'compile'"),
    "no subcommand of this name": ("backend lst", "usage-020", "did you mean 'list'"),
    "no option of this name": ("compile good.tflite --sramm 1k", "usage-020", "mean --sram?"),
    "no option of this name, Python's": (
        "compile good.tflite --stream_input", "usage-020", "mean --stream-input?",
    ),
    "an option without a value": ("compile good.tflite --clock", "usage-020", "--clock"),
    "no model": ("compile", "usage-020", "missing argument 'MODEL'"),
    "two models": ("compile good.tflite other.tflite", "usage-020", "other.tflite"),
    "a clock without a unit of frequency": (
        "compile good.tflite --clock 168ms", "usage-003", "write 168MHz",
    ),
    "a clock of zero": ("compile good.tflite --clock 0MHz", "usage-003", "above 0"),
    "a negative clock": ("compile good.tflite --clock=-1MHz", "usage-003", "write 168MHz"),
    "a clock of a part of a hertz": ("run good.tflite --clock 0.3Hz", "usage-003", "whole number"),
    "a clock whose unit is missing": (
        "compile good.tflite --clock 16", "usage-003", "did you mean 16MHz?",
    ),
    "a clock beyond physics": ("profile good.tflite --clock 1000GHz", "usage-003", "at most"),
    "a clock with two units": ("explore good.tflite --clock 1kMHz", "usage-003", "GHz, or none"),
    "an output that has files": ("compile good.tflite -o full", "output-001", "--force"),
    "an output that is a file": ("compile good.tflite -o no_size.toml", "output-001", "remove the"),
    "a forced output that is a file": (
        "compile good.tflite -o no_size.toml --force", "output-001", "remove the file",
    ),
    "a forced output below a file": (
        "explore good.tflite -o no_size.toml/out --force", "output-002", "Not a directory",
    ),
    "a default output that has files": ("compile taken.tflite", "output-001", "--force"),
    "an explored output that has files": ("explore good.tflite -o full", "output-001", "--force"),
    "a profile's output that has files": (
        "profile good.tflite --no-simulate -o full", "output-001", "--force",
    ),
    "a demo's output that has files": ("demo -o full", "output-001", "--force"),
    "a name that is too long": (f"compile good.tflite -o {'x' * 300}", "output-002", "too long"),
    "an output array in no folder": (
        "run good.tflite -t host --output none/y.npy", "output-003", "existing, writable folder",
    ),
    "an output array that is a folder": (
        "run good.tflite -t host --output full", "output-003", "Is a directory",
    ),
    "an output array as text": (
        "run good.tflite -t host --output y.txt", "usage-162", "write --output y.npy",
    ),
    "no stage of this name": ("compile good.tflite --stop-after lowr", "usage-013", "mean lower?"),
    "no stage of this name to show": ("show good.tflite --stop-after red", "usage-013", "read?"),
    "no goal of this name": ("compile good.tflite --optimize sped", "usage-013", "mean speed?"),
    "no memory of this name": ("compile good.tflite --memory sran=1k", "usage-011", "mean sram?"),
    "no target of this name": ("compile good.tflite -t cortex_m4", "usage-002", '"cortex-m4"'),
    "no target file of this name": ("compile good.tflite -t bord.toml", "target-001", "bord.toml"),
    "no order of this name": ("compile good.tflite --order bsf", "usage-056", "mean bfs?"),
    "no rung of this name": ("verify good.tflite --last-rung mashine", "usage-013", "machine?"),
    "no operator of this name": ("ops CONV2", "backend-001", "CONV_2D"),
    "no model file of this name": ("compile god.tflite", "model-001", "mean good.tflite?"),
    "no zoo network of this name": ("compile zoo:lenet_5", "usage-111", "zoo:lenet5"),
    "a hop of no frames": ("compile good.tflite --incremental 0", "usage-132", "--incremental"),
    "no number of workers": ("compile good.tflite --workers two", "usage-020", "--workers"),
    "one name of a target for an accelerator": (
        "compile good.tflite -t nvdla --clock 1MHz", "usage-058", "--accelerator",
    ),
}  # fmt: skip
"""By fault: the command, its code, and words of its message."""

CALLS: dict[str, tuple[Callable[[], object], str, str]] = {
    "no setting of this name": (
        lambda: package.compile("good.tflite", sramm=1),  # pyright: ignore
        "usage-031", "did you mean sram?",
    ),
    "a search option as a setting": (
        lambda: package.explore("good.tflite", max_parts=1),  # pyright: ignore
        "usage-031", "options=Options(max_parts=..)",
    ),
    "a clock that is no number": (
        lambda: package.run("good.tflite", clock="fast"), "usage-003", "write 168MHz",
    ),
    "a clock that is negative": (
        lambda: package.profile("good.tflite", clock=-5), "usage-003", "write 168MHz",
    ),
    "no stage to show": (
        lambda: package.show("good.tflite", stop_after="plan"), "usage-013", "use one of read",
    ),
    "no goal": (
        lambda: package.compile("good.tflite", optimize="fast"),  # pyright: ignore
        "usage-013", "use one of speed",
    ),
    "no reference": (
        lambda: package.verify("good.tflite", reference="tflit"),  # pyright: ignore
        "usage-013", "did you mean tflite?",
    ),
    "no reference of a scan": (
        lambda: list(package.scan(".", reference="tflit")),  # pyright: ignore
        "usage-013", "did you mean tflite?",
    ),
    "no last stage of a scan": (
        lambda: list(package.scan(".", stop_after="rea")), "usage-013", "did you mean read?",
    ),
    "no compiler": (
        lambda: package.run("good.tflite", compiler="clang"), "usage-013", "use one of zig, gcc",
    ),
    "options in a dictionary": (
        lambda: package.compile("good.tflite", options={"max_parts": 3}),  # pyright: ignore
        "usage-160", "options=penstock.Options(max_parts=3)",
    ),
    "an option of a text": (
        lambda: package.Options(max_parts="3"),  # pyright: ignore
        "usage-016", "the limit is '3'",
    ),
    "memory in a text": (
        lambda: package.compile("good.tflite", memory="sram=4KiB"),  # pyright: ignore
        "usage-160", 'write memory={"sram": "64KiB"}',
    ),
    "a flag in a text": (
        lambda: package.compile("good.tflite", stream_input="no"),  # pyright: ignore
        "usage-160", "must be True or False",
    ),
    "a flag of verify in a text": (
        lambda: package.verify("good.tflite", every_point="no"),  # pyright: ignore
        "usage-160", "must be True or False",
    ),
    "a number of hops in a text": (
        lambda: package.verify("good.tflite", hops="8"),  # pyright: ignore
        "usage-160", "must be int",
    ),
    "a state that is no pair": (
        lambda: package.api.golden("good.tflite", "out.npz", states="a=b"),  # pyright: ignore
        "usage-160", "must be Mapping[str, str] | None",
    ),
    "no hops": (lambda: package.verify("good.tflite", hops=-3), "usage-163", "at least 1"),
    "fewer operators than none": (
        lambda: list(package.scan(".", min_operators=-1)), "usage-163", "at least 0",
    ),
    "a path as a target": (
        lambda: package.compile("good.tflite", Path("board.toml")),  # pyright: ignore
        "usage-160", "must be str",
    ),
    "inputs without a list": (
        lambda: package.run("good.tflite", "host", {"x": []}),  # pyright: ignore
        "usage-161", "sets=[{",
    ),
    "results into a folder that has files": (
        lambda: package.compile("good.tflite").write("full"), "output-001", "--force",
    ),
    "a forced result in the place of a folder": (
        lambda: package.compile("good.tflite").write("blocked", force=True),
        "output-002", "Is a directory: report.json",
    ),
}  # fmt: skip
"""By fault: the call in Python, its code, and words of its message."""


@pytest.fixture
def files(penstock: CommandLine) -> dict[Path, bytes | None]:
    """The folder of a test with a few obstacles: its files and their contents."""
    for folder in ("full", "taken", "blocked/report.json"):
        Path(folder).mkdir(parents=True)
        (Path(folder) / "mine").write_text("mine")
    Path("taken.tflite").write_bytes(Path("good.tflite").read_bytes())
    return contents()


def contents() -> dict[Path, bytes | None]:
    """All files of the present folder and their contents; None for folders."""
    return {path: path.read_bytes() if path.is_file() else None for path in Path().rglob("*")}


def check_parts(message: str, code: str, words: str) -> None:
    """A message says what, where, and why or what helps; it contains words."""
    first, second, *rest = message.splitlines()
    assert first.startswith(f"error[{code}]: ")
    assert len(first) > len(f"error[{code}]: ")
    assert second.startswith("  --> ")
    assert len(second) > len("  --> ")
    assert any(line.startswith(("  why: ", "  help: ")) for line in rest)
    assert words.lower() in message.lower()


@pytest.mark.parametrize("fault", COMMANDS)
def test_a_wrong_command_is_explained_and_writes_nothing(
    penstock: CommandLine, files: dict[Path, bytes | None], fault: str
) -> None:
    command, code, words = COMMANDS[fault]
    said = penstock(*command.split())
    error = [line for line in said.err.splitlines() if not line.startswith("[")]  # demo's steps
    check_parts("\n".join(error), code, words)
    assert (said.code, said.out) == (2 if code.startswith("usage") else 1, "")
    assert contents() == files


def test_a_wrong_command_is_explained_as_json(
    penstock: CommandLine, files: dict[Path, bytes | None]
) -> None:
    said = penstock("compile", "good.tflite", "--clock", "never", "--json")
    assert json.loads(said.out)["error"]["code"] == "usage-003"
    assert contents() == files


@pytest.mark.parametrize("fault", CALLS)
def test_a_wrong_call_is_explained_and_writes_nothing(
    files: dict[Path, bytes | None], fault: str
) -> None:
    call, code, words = CALLS[fault]
    with pytest.raises(PenstockError) as caught:
        call()
    check_parts(str(caught.value), code, words)
    assert contents() == files
