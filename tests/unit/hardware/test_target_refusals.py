"""Descriptions of targets that are wrong are refused in words, with the field that is meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import TargetError
from penstock.hardware.load import load_target, parse_target, target_text

HOST = target_text("host")


def test_the_description_that_the_others_are_made_of_is_right() -> None:
    assert parse_target(HOST, "host.toml").name == "host"


@pytest.mark.parametrize(
    ("old", "new", "code", "words"),
    [
        ("[compiler]", "[compiler", "target-002", "the target file is not TOML"),
        ('size = "1GiB"', 'size = "many"', "target-003", "memories.0.size"),
        ('size = "1GiB"', "size = 0", "target-003", "memories.0.size"),
        ('size = "1GiB"', "size = -1", "target-003", "memories.0.size"),
        ("budget = true", "budget = 7", "target-003", "memories.0.budget"),
        ('name = "host"', 'name = "host"\ncolour = "red"', "target-003", "colour"),
        ('name = "host"', 'name = ""', "target-003", "name: String should match"),
        ('name = "ram"', 'name = " "', "target-003", "memories.0.name"),
        ('name = "ram"', 'name = "ram "', "target-003", "memories.0.name"),
        ('name = "cpu"', 'name = "\\t"', "target-003", "engines.0.name"),
        ('optimise = "speed"', 'optimise = "taste"', "target-003", "compiler.optimise"),
        ("cycles_per_mac = 1.0", "cycles_per_mac = nan", "target-003", "engines.0.cycles_per_mac"),
        ("cycles_per_mac = 1.0", "cycles_per_mac = inf", "target-003", "engines.0.cycles_per_mac"),
        ("cycles_per_mac = 1.0", "cycles_per_mac = -1", "target-003", "engines.0.cycles_per_mac"),
        ('holds = ["arena"]', "holds = []", "target-003", "memories.0.holds"),
        ('holds = ["arena"]', 'holds = ["attic"]', "target-004", "no memory holds 'arena'"),
    ],
)
def test_a_wrong_description_is_refused(old: str, new: str, code: str, words: str) -> None:
    assert old in HOST
    with pytest.raises(TargetError) as caught:
        parse_target(HOST.replace(old, new, 1), "mine.toml")
    assert (caught.value.code, caught.value.where) == (code, "mine.toml")
    assert words in caught.value.what


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "mine.toml"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    with pytest.raises(TargetError, match="the target file cannot be read"):
        load_target(str(path))
