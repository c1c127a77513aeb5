"""Messages about invalid target files name table, field, value found and values allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import TargetError
from penstock.hardware.load import load_target, parse_target, target_text

HOST = target_text("host")


def test_the_description_that_the_others_are_made_of_is_right() -> None:
    assert parse_target(HOST, "host.toml").name == "host"


RAM, CPU = '[[memories]] "ram"', '[[engines]] "cpu"'


@pytest.mark.parametrize(
    ("old", "new", "table", "what"),
    [
        ('size = "1GiB"', 'size = "many"', RAM, 'size is "many", must be a size'),
        ('size = "1GiB"', "size = 0", RAM, "size is 0, must be a size from 1 byte"),
        ('size = "1GiB"', "", RAM, "size is missing, must be a size"),
        ("budget = true", "budget = 7", RAM, "budget is 7, must be true or false"),
        ("budget = true", "budget = 1", RAM, "budget is 1, must be true or false"),
        ('name = "host"', 'name = "host"\ncolour = "red"', "", 'unknown field "colour", must be'),
        ('name = "host"', 'name = ""', "", 'name is "", must be a name'),
        ('name = "ram"', 'name = " "', '[[memories]] " "', 'name is " ", must be a name'),
        ('name = "ram"', "name = 3", "[[memories]] 1", "name is 3, must be a name"),
        ('name = "rodata"', 'name = "ram"', RAM, 'name is "ram", must be distinct from ram'),
        ('name = "cpu"', 'name = "\\t"', "[[engines]] 1", 'name is "\\t", must be a name'),
        ('name = "cpu"', 'name = "caller"', '[[engines]] "caller"', "must be distinct from caller"),
        ('optimise = "speed"', 'optimise = "sped"', "[compiler]", 'optimise is "sped", must be'),
        ("gcc = []", 'gcc = ["-O2 -g"]', "[compiler]", 'gcc[0] is "-O2 -g", must be one argument'),
        ("cycles_per_mac = 1.0", "cycles_per_mac = nan", CPU, "cycles_per_mac is nan, must be"),
        ("cycles_per_mac = 1.0", "cycles_per_mac = -1", CPU, "cycles_per_mac is -1, must be"),
        ("cycles_per_mac = 1.0", "cycles_per_mac = true", CPU, "cycles_per_mac is true, must be"),
        ('holds = ["arena"]', "holds = []", RAM, "holds is an empty list, must be a list"),
        ('holds = ["arena"]', 'holds = ["attic"]', RAM, 'holds[0] is "attic", must be "arena" or'),
        ("[compiler]", 'core = "cortex-m4"\n[compiler]', "[compiler]", "zig is an empty list"),
    ],
)
def test_a_wrong_field_is_refused(old: str, new: str, table: str, what: str) -> None:
    assert old in HOST
    with pytest.raises(TargetError) as caught:
        parse_target(HOST.replace(old, new, 1), "mine.toml")
    error = caught.value
    assert (error.code, error.where) == ("target-003", f"mine.toml, {table}".removesuffix(", "))
    assert what in error.what
    assert "`penstock targets --show cortex-m4`" in error.help


@pytest.mark.parametrize(
    ("old", "new", "suggestion"),
    [
        ('size = "1GiB"', 'siz = "1GiB"', 'did you mean "size"?'),
        ('optimise = "speed"', 'optimise = "sped"', 'did you mean "speed"?'),
        ('holds = ["constant"]', 'holds = ["constants"]', 'did you mean "constant"?'),
        ("latency_cycles = 0", "latency_cycles = 0.5", "for example latency_cycles = 0"),
        ("gcc = []", "gcc = [1]", 'for example "-mthumb"'),
    ],
)
def test_a_message_suggests_a_correction(old: str, new: str, suggestion: str) -> None:
    assert old in HOST
    with pytest.raises(TargetError) as caught:
        parse_target(HOST.replace(old, new, 1), "mine.toml")
    assert caught.value.help.startswith(suggestion)


def test_further_wrong_fields_are_listed() -> None:
    text = HOST.replace("latency_cycles = 0", "latency_cycles = -1")
    with pytest.raises(TargetError) as caught:
        parse_target(text.replace('optimise = "speed"', "optimise = 1"), "mine.toml")
    listed = "also wrong: memories.0.latency_cycles, memories.1.latency_cycles"
    assert caught.value.why == listed


def test_a_misspelt_field_is_not_listed_as_missing_as_well() -> None:
    with pytest.raises(TargetError, match='unknown field "cycles_per_macs"') as caught:
        parse_target(HOST.replace("cycles_per_mac", "cycles_per_macs"), "mine.toml")
    assert caught.value.why == ""


def test_a_target_has_one_processor() -> None:
    processor = HOST[HOST.index("[[engines]]") :]
    with pytest.raises(TargetError, match=r"must be one table \[\[engines\]\]"):
        parse_target(HOST + processor.replace('"cpu"', '"other"'), "mine.toml")


@pytest.mark.parametrize("kind", ["arena", "constant"])
def test_a_target_has_a_memory_for_each_kind_of_buffer(kind: str) -> None:
    other = {"arena": "constant", "constant": "arena"}[kind]
    with pytest.raises(TargetError, match=f"no memory holds '{kind}'") as caught:
        parse_target(HOST.replace(f'holds = ["{kind}"]', f'holds = ["{other}"]'), "mine.toml")
    assert caught.value.code == "target-004"


@pytest.mark.parametrize("text", ["[compiler", "size = " + "9" * 5000, "x = " + "[" * 9999])
def test_a_text_that_is_not_toml_is_refused(text: str) -> None:
    with pytest.raises(TargetError, match="the target file is not TOML"):
        parse_target(text, "mine.toml")


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "mine.toml"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    with pytest.raises(TargetError, match="the target file cannot be read"):
        load_target(str(path))
