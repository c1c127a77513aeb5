"""Every field of every shipped target, changed to every kind of value, is checked when loaded.

The fields come from the schema.  What a field may hold is stated here a second time, in terms of
its meaning and independently of the schema: a new field must be given a meaning.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from command_line import CommandLine
from penstock import api
from penstock.backends.cores.family import check_processor
from penstock.errors import TargetError
from penstock.hardware.load import parse_target
from target_fields import FIELDS, MISSING, TARGETS, TargetField, toml

MODEL = Path(__file__).parents[2] / "models" / "two_heads.tflite"
PARTS = ("what", "where", "help")
Data = Mapping[str, Any]
"""A parsed target file."""


def is_number(value: object) -> bool:
    """Whether the value is a finite number; TOML's booleans are none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= 2**1000 and math.isfinite(value)


def is_line(value: object, longest: int) -> bool:
    if not isinstance(value, str) or not value.isprintable():
        return False
    return value == value.strip() and 0 < len(value) <= longest


def is_name(value: object, _: Data) -> bool:
    return is_line(value, 64)


def is_size(value: object, _: Data) -> bool:
    if isinstance(value, str):
        return re.fullmatch(r"[1-9][0-9]{0,3}(KiB|k|GiB)?", value) is not None
    return isinstance(value, int) and is_number(value) and 0 < value <= 2**40


def is_clock(value: object, _: Data) -> bool:
    if isinstance(value, str):
        units = r"[1-9][0-9]{0,3}(kHz|MHz|GHz)|[1-9][0-9]{3}(Hz)?"
        return re.fullmatch(units, value) is not None
    if value is MISSING:
        return True
    return isinstance(value, int) and is_number(value) and 1000 <= value <= 10**11


def is_whole_cycles(value: object, _: Data) -> bool:
    return isinstance(value, int) and is_number(value) and 0 <= value <= 2**20


def is_burst(value: object, _: Data) -> bool:
    if value is MISSING:
        return True
    return isinstance(value, int) and is_number(value) and 1 <= value <= 4096


def is_cycles(value: Any, _: Data) -> bool:
    return is_number(value) and 0 <= value <= 2**20


def is_above_zero(value: Any, _: Data) -> bool:
    return is_number(value) and 2**-20 <= value <= 2**20


def is_flags(value: Any, data: Data) -> bool:
    if not isinstance(value, list) or (not value and "core" in data):
        return False
    return all(flag == "-mthumb" for flag in value)  # the only known flag among VALUES


def is_core(value: object, data: Data) -> bool:
    return value is MISSING or value == data.get("core")


def is_family(value: object, data: Data) -> bool:
    with_dsp = data.get("core") in (None, "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55")
    with_mve = data.get("core") in (None, "cortex-m55")
    known = {"dsp": with_dsp, "mve": with_mve, "portable": True, "thumb": True}
    return isinstance(value, str) and known.get(value, False)


MEANING: Mapping[str, Callable[[Any, Data], bool]] = {
    "name": is_name,
    "description": lambda value, _: is_line(value, 256),
    "core": is_core,
    "clock": is_clock,
    "compiler": lambda value, _: False,
    "compiler.zig": is_flags,
    "compiler.gcc": is_flags,
    "compiler.optimise": lambda value, _: value in ("speed", "size"),
    "memories": lambda value, _: False,
    "memories.name": is_name,
    "memories.size": is_size,
    "memories.holds": lambda value, _: value in (["arena"], ["arena", "constant"]),
    "memories.bandwidth_bytes_per_cycle": is_above_zero,
    "memories.latency_cycles": is_whole_cycles,
    "memories.burst_bytes": is_burst,
    "memories.budget": lambda value, _: isinstance(value, bool),
    "engines": lambda value, _: False,
    "engines.name": is_name,
    "engines.kernels": is_family,
    "engines.bandwidth_bytes_per_cycle": is_above_zero,
    "engines.cycles_per_mac": is_above_zero,
    "engines.cycles_per_element": is_cycles,
    "engines.cycles_per_loop": is_cycles,
    "engines.cycles_per_call": is_cycles,
    "accelerators": lambda value, _: value is MISSING or value == [],
    "accelerators.name": is_name,
    "accelerators.instances": lambda value, _: type(value) is int and 1 <= value <= 16,
}
"""By field: whether a value of the first table that has the field is meaningful in that target."""

NUMBERS = [0, 0.0, -0.0, -1, -0.5, 1, 0.5, 4, 2**20, 2**20 + 1, 2**40, 2**40 + 1, 2**63, 10**400]
FLOATS = [1e-320, 2**-20, 1e300, math.nan, math.inf, -math.inf]
TEXTS = ["cortex-m99", "168MHz", "0MHz", "", " ", "x ", "a\nb", "\x00", "*/", "ö", "64KiB", "0"]
TEXTS += ["-1k", "1e400k"]
WORDS = ["speed", "x" * 99, "riscv", "DSP", "dsp", "mve"]
LISTS = [[], [0], [""], ["arena"], ["arena", "constant"], ["arena"] * 2, ["-mthumb"], [[]], [{}]]
OTHERS = [True, False, {}, {"name": "x"}, date(1979, 5, 27)]
VALUES = [MISSING, *NUMBERS, *FLOATS, *TEXTS, *WORDS, *LISTS, *OTHERS]


def holding(field: TargetField) -> list[str]:
    """The shipped targets with a table that may have the field."""
    return [name for name, data in TARGETS.items() if next(field.entries(data), None) is not None]


def refused(text: str) -> TargetError | None:
    """The error about a text; None where the text describes a target."""
    try:
        check_processor(parse_target(text, "mine.toml"), "mine.toml")
    except TargetError as error:
        return error
    return None


def check(field: TargetField, target: str, value: object) -> None:
    """The value is accepted exactly if it is meaningful; messages name the field."""
    error = refused(field.changed(target, value))
    if MEANING[str(field)](value, TARGETS[target]):
        assert error is None, error
    else:
        assert error is not None, f"{field} = {value!r} is accepted for {target}"
        assert field.name in str(error), error
        assert all(getattr(error, part) for part in PARTS), error
        assert error.where.startswith("mine.toml")
        assert len(str(error)) < 1000


def test_every_field_has_a_meaning() -> None:
    assert set(MEANING) == {str(field) for field in FIELDS}


@pytest.mark.parametrize("field", FIELDS, ids=str)
def test_a_field_accepts_meaningful_values_only(field: TargetField) -> None:
    targets = holding(field)
    assert targets
    for target in targets:
        for value in VALUES:
            check(field, target, value)


@given(st.data())
def test_random_values_are_accepted_only_if_meaningful(data: st.DataObject) -> None:
    field = data.draw(st.sampled_from(FIELDS))
    target = data.draw(st.sampled_from(holding(field)))
    numbers = st.integers() | st.floats()
    texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=64)
    value = data.draw(numbers | texts | st.booleans() | st.lists(numbers | texts, max_size=3))
    check(field, target, value)


@pytest.mark.parametrize("target", TARGETS)
def test_an_unknown_field_is_refused_in_every_table(target: str) -> None:
    tables = {field.table: field for field in FIELDS if target in holding(field)}
    for table, field in tables.items():
        error = refused(replace(field, name="latency").changed(target, 0))
        assert error is not None, table
        assert 'unknown field "latency"' in error.what


@pytest.mark.parametrize("field", [field for field in FIELDS if field.is_required], ids=str)
def test_the_command_line_refuses_a_target_without_a_field(
    field: TargetField, tmp_path: Path, penstock: CommandLine
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(field.changed("two-region", MISSING), "utf-8")
    said = penstock("compile", MODEL, "--target", path)
    assert said.code == 1
    assert said.err.startswith("error[target-003]: ")
    assert f"{field.name} is missing, must be " in said.err


GREATEST = [2**20, 2**40, "x" * 64]


@pytest.mark.parametrize("field", FIELDS, ids=str)
def test_a_network_compiles_with_the_greatest_value_of_a_field(
    field: TargetField, tmp_path: Path
) -> None:
    accepted = [v for v in GREATEST if MEANING[str(field)](v, TARGETS["two-region"])]
    if not accepted:
        return
    path = tmp_path / "mine.toml"
    path.write_text(field.changed("two-region", accepted[-1]), "utf-8")
    compiled = api.compile(MODEL, str(path))
    assert compiled.report.cycles.estimated >= 0
    compiled.write(str(tmp_path / "out"))


@pytest.mark.parametrize("value", [0, 2**-20, 2**20])
def test_a_network_compiles_with_extreme_values_everywhere(value: float, tmp_path: Path) -> None:
    """All fields of all tables at one extreme, for each field that accepts it."""
    data = copy.deepcopy(TARGETS["two-region"])
    for field in FIELDS:
        if MEANING[str(field)](value, data):
            for entry in field.entries(data):
                entry[field.name] = value
    path = tmp_path / "mine.toml"
    path.write_text(toml(data), "utf-8")
    assert api.compile(MODEL, str(path)).report.cycles.estimated >= 0
