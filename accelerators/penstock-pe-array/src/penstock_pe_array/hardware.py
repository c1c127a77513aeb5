"""hardware: the description of a PE array, and the TOML file that states it.

The file comes from strangers, so it is checked strictly: each key must be known and present, each
value of the stated kind and in its range.  `KEYS` is the vocabulary.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from pathlib import Path
from typing import Final, cast

from penstock.uma import AcceleratorTarget, PenstockError, UsageError, parse_size

MOST_BYTES = 2**16
"""The largest file that is read."""
EXAMPLE = "`penstock backend new NAME --kind pe-array` writes a valid file that explains every key"


class Dataflow(IntEnum):
    """What stays in the processing elements while the other tensors stream past.  The values are
    those of the register `dataflow`."""

    WEIGHT_STATIONARY = 0
    OUTPUT_STATIONARY = 1
    INPUT_STATIONARY = 2

    @property
    def text(self) -> str:
        """The name in the file, such as "weight-stationary"."""
        return self.name.lower().replace("_", "-")


GLOBAL_BUFFER = "global_buffer"
"""The name of the on-chip memory for tensors."""
OPERATORS: Final = {
    "conv2d": "nn.conv2d",
    "depthwise_conv2d": "nn.depthwise_conv2d",
    "fully_connected": "nn.dense",
    "max_pool2d": "nn.max_pool2d",
    "average_pool2d": "nn.avg_pool2d",
    "add": "add",
}
"""The operators that a file may list, each with its name in patterns."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """One of the buffers between memory and the array.

    size_bytes: its size; a sum in the output buffer takes 4 bytes.
    bytes_per_cycle: the bytes that the array reads or writes in a cycle.
    latency_cycles: the cycles from the first access of a fold to its first element."""

    size_bytes: int = 16384
    bytes_per_cycle: int = 8
    latency_cycles: int = 1


@dataclass(frozen=True, slots=True)
class Hardware:
    """A PE array.

    rows, columns: the processing elements.
    dataflow: what stays in them.
    input, weights, output: the buffers.  Each consists of `banks` banks of equal size; of two
        banks, one may be copied while the array uses the other.
    memory_bytes_per_cycle: the bytes that are read from memory in a cycle, and those that are
        written at the same time.
    memory_latency_cycles: the cycles before the first byte of a copy.
    memory_run_cycles: the cycles that each run of contiguous bytes takes besides.
    operators: keys of `OPERATORS`, those that run on the array.
    global_buffer: the on-chip memory that may hold tensors between layers; of 0 bytes if there is
        none.  Its bytes per cycle and latency are those of copies to and from the other buffers."""

    rows: int = 8
    columns: int = 8
    dataflow: Dataflow = Dataflow.WEIGHT_STATIONARY
    banks: int = 2
    input: Buffer = Buffer()
    weights: Buffer = Buffer()
    output: Buffer = Buffer(bytes_per_cycle=32)
    memory_bytes_per_cycle: int = 8
    memory_latency_cycles: int = 40
    memory_run_cycles: int = 2
    operators: tuple[str, ...] = tuple(OPERATORS)
    global_buffer: Buffer = Buffer(32768, 16, 4)


@dataclass(frozen=True, slots=True)
class Whole:
    """A key whose value is a whole number from `least` to `most`."""

    least: int
    most: int

    @property
    def allowed(self) -> str:
        """The allowed values, as messages state them."""
        return f"a whole number from {self.least} to {self.most}"

    def read(self, value: object) -> int | None:
        """Return the value, or None if it is not allowed."""
        is_allowed = type(value) is int and self.least <= value <= self.most
        return cast(int, value) if is_allowed else None


@dataclass(frozen=True, slots=True)
class Size(Whole):
    """A key whose value is a size in bytes, as a number or as a text with a unit.  It must be a
    multiple of 8: two banks of whole sums."""

    @property
    def allowed(self) -> str:
        """The allowed values, as messages state them."""
        return f'a multiple of 8 from {self.least} to {self.most} bytes, such as "16KiB"'

    def read(self, value: object) -> int | None:
        """Return the size in bytes, or None if it is not allowed."""
        if isinstance(value, str):
            try:
                value = parse_size(value)
            except PenstockError:
                return None
        found = Whole.read(self, value)
        return None if found is None or found % 8 else found


@dataclass(frozen=True, slots=True)
class Choice:
    """A key whose value is one of some texts."""

    texts: tuple[str, ...]

    @property
    def allowed(self) -> str:
        """The allowed values, as messages state them."""
        return f"one of {', '.join(map(json.dumps, self.texts))}"

    def read(self, value: object) -> str | None:
        """Return the text, or None if it is not allowed."""
        return cast(str, value) if value in self.texts else None


@dataclass(frozen=True, slots=True)
class Choices:
    """A key whose value is a list of some texts, each at most once."""

    texts: tuple[str, ...]

    @property
    def allowed(self) -> str:
        """The allowed values, as messages state them."""
        return f"a list, without repetitions, of some of {', '.join(map(json.dumps, self.texts))}"

    def read(self, value: object) -> tuple[str, ...] | None:
        """Return the texts as a tuple, or None if they are not allowed."""
        if not isinstance(value, list) or not value:
            return None
        items = cast(list[object], value)
        texts = tuple(text for text in self.texts if text in items)
        return texts if len(texts) == len(items) else None


Key = Whole | Choice | Choices
Value = int | str | tuple[str, ...]
Table = Mapping[str, object]
_COUNT, _RATE, _CYCLES = Whole(1, 1024), Whole(1, 4096), Whole(0, 65536)
_BUFFER: Mapping[str, Key] = {
    "size": Size(8, 2**28),
    "bytes_per_cycle": _RATE,
    "latency_cycles": _CYCLES,
}
KEYS: Mapping[str, Mapping[str, Key]] = {
    "array": {
        "rows": _COUNT,
        "columns": _COUNT,
        "dataflow": Choice(tuple(flow.text for flow in Dataflow)),
        "operators": Choices(tuple(OPERATORS)),
    },
    "buffers": {"banks": Whole(1, 2)},
    "buffers.input": _BUFFER,
    "buffers.weights": _BUFFER,
    "buffers.output": _BUFFER,
    "global_buffer": {**_BUFFER, "size": Size(0, 2**28)},
    "memory": {
        "bytes_per_cycle": _RATE,
        "latency_cycles": _CYCLES,
        "run_cycles": _CYCLES,
    },
}
"""The keys of each table of a file, with their values."""


def hardware_of(target: AcceleratorTarget) -> Hardware:
    """Return the array that the attribute `file` describes; without one, the default array.

    Raises UsageError if the file cannot be read or is invalid."""
    return read_file(str(target.attrs["file"]))


def read_file(name: str) -> Hardware:
    """Return the array that a file describes, or the default array if `name` is "".

    Raises UsageError if the file cannot be read or is invalid."""
    if not name:
        return Hardware()
    try:
        with Path(name).open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
        text = raw.decode("utf-8")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise UsageError(
            "array-001",
            "the description of the PE array cannot be read",
            where=f"--accelerator pe_array:file={name}",
            why=reason or str(error),
            help=EXAMPLE,
        ) from error
    if len(raw) > MOST_BYTES:
        raise UsageError(
            "array-001",
            f"the description of the PE array has more than {MOST_BYTES} bytes",
            where=f"--accelerator pe_array:file={name}",
            help=EXAMPLE,
        )
    return parse(text, name)


@lru_cache(maxsize=16)
def parse(text: str, file: str) -> Hardware:
    """Return the array that a TOML text describes; messages call it `file`.

    Raises UsageError for text that is not TOML, and for unknown, missing and wrong keys."""
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # numbers of 4300 digits, deep nesting
        raise UsageError(
            "array-002",
            "the description of the PE array is not TOML",
            where=file,
            why=str(error),
            help=EXAMPLE,
        ) from error
    place = _Place(file, text)
    found = {name: _table(data, name, place) for name in KEYS}

    def number(table: str, key: str) -> int:
        return cast(int, found[table][key])

    def buffer(table: str) -> Buffer:
        return Buffer(*(number(table, key) for key in _BUFFER))

    return Hardware(
        number("array", "rows"),
        number("array", "columns"),
        next(flow for flow in Dataflow if flow.text == found["array"]["dataflow"]),
        number("buffers", "banks"),
        buffer("buffers.input"),
        buffer("buffers.weights"),
        buffer("buffers.output"),
        number("memory", "bytes_per_cycle"),
        number("memory", "latency_cycles"),
        number("memory", "run_cycles"),
        cast(tuple[str, ...], found["array"]["operators"]),
        buffer("global_buffer"),
    )


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a key is, for messages: the name and the text of its file."""

    file: str
    text: str

    def of(self, table: str, key: str = "") -> str:
        """Return the file, the line if it is found, and the table."""
        header, at = "", self.file
        for number, line in enumerate(self.text.splitlines(), 1):
            if opened := re.fullmatch(r"\s*\[\s*([\w.\s-]+?)\s*\]\s*(#.*)?", line):
                header = re.sub(r"\s", "", opened[1])
            is_key = key and re.match(rf'\s*"?{re.escape(key)}"?\s*=', line)
            if header == table and (is_key or (opened and not key)):
                at = f"{self.file}:{number}"
                break
        return f"{at}, [{table}]" if table else at


def _table(data: Table, name: str, place: _Place) -> dict[str, Value]:
    """Return the values of a table, by key in the order of `KEYS`."""
    keys = KEYS[name]
    inner = {other.rpartition(".")[2] for other in KEYS if other.startswith(f"{name}.")}
    table = data
    _check_known(data, {one.partition(".")[0] for one in KEYS}, "", place)
    for part in name.split("."):
        inside = table.get(part)
        if not isinstance(inside, dict):
            found = "is missing" if inside is None else "is no table"
            raise _wrong(f"[{name}] {found}", f"a table with {', '.join(keys)}", place.of(""))
        table = cast(Table, inside)
    _check_known(table, {*keys, *inner}, name, place)
    values: dict[str, Value] = {}
    for key, rule in keys.items():
        value = rule.read(table.get(key))
        if value is None:
            found = f"is {_shown(table[key])}" if key in table else "is missing"
            where = place.of(name, key if key in table else "")
            raise _wrong(f"{key} {found}", rule.allowed, where)
        values[key] = value
    return values


def _check_known(table: Table, known: set[str], name: str, place: _Place) -> None:
    for key in table:
        if key not in known:
            allowed = f"one of {', '.join(sorted(known))}"
            near = difflib.get_close_matches(key[:40], known, 1)
            where = place.of(name, key)
            raise _wrong(f"unknown key {_shown(key)}", allowed, where, near)


def _wrong(what: str, allowed: str, where: str, near: Sequence[str] = ()) -> UsageError:
    meant = f'did you mean "{near[0]}"? ' if near else ""
    return UsageError(
        "array-003", f"{what}, must be {allowed}", where=where, help=f"{meant}{EXAMPLE}"
    )


def _shown(value: object) -> str:
    """Return a value as TOML spells it, at most 40 characters."""
    match value:
        case bool():
            text = str(value).lower()
        case int() if value.bit_length() > 64:
            text = f"a number of {value.bit_length()} bits"
        case str():
            text = json.dumps(value)
        case list():
            items = cast(list[object], value)
            is_short = all(isinstance(item, str) for item in items)
            text = json.dumps(items) if is_short else "a list"
        case dict():
            text = "a table"
        case _:
            text = str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
