"""Files that describe PE arrays: what they state, and what is wrong with them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import penstock_pe_array
from arrays import DATAFLOWS, OPERATORS, described
from command_line import CommandLine
from errors.golden import Golden, raised_codes
from penstock.scaffold import contributed
from penstock.uma import UsageError
from penstock_pe_array.hardware import (
    KEYS,
    MOST_BYTES,
    Buffer,
    Dataflow,
    Hardware,
    parse,
    read_file,
)

TEXT = described("input-stationary", rows=6, columns=16, banks=1)


def test_every_key_has_its_place() -> None:
    assert parse(TEXT, "x.toml") == Hardware(
        6,
        16,
        Dataflow.INPUT_STATIONARY,
        1,
        Buffer(8192, 4, 2),
        Buffer(4096, 3, 1),
        Buffer(8192, 16, 3),
        4,
        30,
        2,
        OPERATORS,
        Buffer(0, 9, 5),
    )
    assert [parse(described(flow), "x").dataflow.text for flow in DATAFLOWS] == list(DATAFLOWS)


def test_the_file_that_the_command_writes_states_the_default_array() -> None:
    files = dict(contributed("pe-array", "my_array").files)
    assert parse(files["my_array.toml"].decode("utf-8"), "my_array.toml") == Hardware()


def test_the_command_writes_a_folder_and_what_to_run_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    penstock = CommandLine(monkeypatch, capsys)
    said = penstock("backend", "new", "array", "--kind", "pe-array", "-o", "here")
    assert said.code == 0
    assert said.out.endswith(" --accelerator pe_array:file=here/array.toml\n")
    files = {path.name: path.read_text("utf-8") for path in (tmp_path / "here").glob("[!.]*")}
    assert sorted(files) == ["README.md", "array.toml"]
    assert "file=array.toml" in files["README.md"]
    assert "{{" not in "".join(files.values())
    for words in (("--kind", "array"), ("--kind", "pe-array", "--layout", "files")):
        said = penstock("backend", "new", "other", *words)
        assert (said.code, "error[usage-013]" in said.err) == (2, True)


def test_sizes_have_units() -> None:
    text = TEXT.replace("size = 4096", 'size = "1.5KiB"')
    assert parse(text, "x.toml").weights.size_bytes == 1536


def test_without_a_file_there_is_a_default_array() -> None:
    assert read_file("") == Hardware()


@pytest.mark.parametrize("table", KEYS)
def test_no_key_may_be_missing(table: str) -> None:
    head, body = re.split(rf"^\[{re.escape(table)}\]\n", TEXT, flags=re.MULTILINE)
    for key in KEYS[table]:
        less = re.sub(rf"^{key} = .*\n", "", body, count=1, flags=re.MULTILINE)
        with pytest.raises(UsageError, match=f"{key} is missing, must be "):
            parse(f"{head}[{table}]\n{less}", "x.toml")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rows = 6", "rows = 0", "rows is 0, must be a whole number from 1 to 1024"),
        ("rows = 6", "rows = 1025", "rows is 1025"),
        ("rows = 6", "rows = true", "rows is true"),
        ("rows = 6", "rows = 6.0", "rows is 6.0"),
        ("rows = 6", 'rows = "6"', 'rows is "6"'),
        ("rows = 6", f"rows = 0x{'f' * 9000}", "rows is a number of 36000 bits"),
        ("rows = 6", f"rows = {'[' * 50}{']' * 50}", "rows is a list"),
        ("rows = 6", "rows = {a = 1}", "rows is a table"),
        ("banks = 1", "banks = 3", "banks is 3, must be a whole number from 1 to 2"),
        ("banks = 1", "banks = 1\nbank = 1", 'unknown key "bank", must be one of banks, input, '),
        ("size = 4096", "size = 4", "size is 4, must be a multiple of 8 from 8 to 268435456 bytes"),
        ("size = 4096", "size = 4100", "size is 4100"),
        ("size = 4096", 'size = "4 KB and more"', "size is "),
        ("size = 4096", 'size = "999999999GiB"', "size is "),
        ('"input-stationary"', '"input_stationary"', 'dataflow is "input_stationary", must be one'),
        ('["conv2d", ', '["conv", ', "must be a list, without repetitions"),
        ('["conv2d", ', '["conv2d", "conv2d", ', "must be a list, without repetitions"),
        ('["conv2d", ', '[1, "conv2d", ', "operators is a list"),
        ("[buffers.weights]", "[buffers.weight]", 'unknown key "weight"'),
        ("[memory]", "[memory.more]", 'unknown key "more"'),
        ("[memory]", "[[memory]]", r"\[memory\] is no table"),
        ("[memory]", "[ddr]", 'unknown key "ddr"'),
    ],
)
def test_wrong_files_are_refused(old: str, new: str, message: str) -> None:
    assert TEXT.count(old) == 1
    with pytest.raises(UsageError, match=message) as caught:
        parse(TEXT.replace(old, new), "x.toml")
    assert caught.value.code == "array-003"


@pytest.mark.parametrize("text", ["[array", "a = 1\na = 2", "x = " + "[" * 20000, "\0", "é = 1"])
def test_what_is_no_toml_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text, "x.toml")
    assert caught.value.code in ("array-002", "array-003")


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    for content in (b"\xff\xfe", b"#" * (MOST_BYTES + 1)):
        path.write_bytes(content)
        with pytest.raises(UsageError) as caught:
            read_file(str(path))
        assert caught.value.code == "array-001"
    for name in (str(tmp_path), "no/such.toml", "a\0b"):
        with pytest.raises(UsageError) as caught:
            read_file(name)
        assert caught.value.code == "array-001"


MESSAGES = {
    "array-001": ("missing.toml", ""),
    "array-002": ("array.toml", TEXT.replace("[memory]", "[memory")),
    "array-003": ("array.toml", TEXT.replace("latency_cycles = 2", "latency = 2")),
}


@pytest.mark.parametrize("code", MESSAGES)
def test_messages(
    code: str,
    golden: Golden,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name, text = MESSAGES[code]
    (tmp_path / "array.toml").write_text(text, "utf-8")
    monkeypatch.chdir(tmp_path)
    words = ("compile", "zoo:lenet5", "--accelerator", f"pe_array:file={name}")
    said = CommandLine(monkeypatch, capsys)(*words)
    assert (said.code, said.out) == (2, "")
    golden.check(code, said.err)


def test_every_code_has_a_golden(golden: Golden) -> None:
    assert golden.codes() == set(raised_codes(Path(penstock_pe_array.__file__).parent))
