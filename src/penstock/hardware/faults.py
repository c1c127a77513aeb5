"""Errors of target files: file, table and field, the value found, the values allowed, a suggestion.

The values allowed are the descriptions of the schema; this module adds no knowledge of fields.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from penstock.errors import TargetError
from penstock.hardware.schema import TargetFile

EXAMPLE = "`penstock targets --show cortex-m4` prints a valid target file"
LONGEST_SHOWN = 40  # Characters of a value that a message shows.
MOST_LISTED = 4  # Further fields that a message lists.
# Keys and indices that lead from the file to a value, such as ("memories", 0, "size").
Path = Sequence[str | int]


def target_error(error: ValidationError, data: Mapping[str, Any], file: str) -> TargetError:
    """The error about the first violation of the schema; unknown fields come first, since a
    misspelled field is also missing.  Further violations are listed.

    `data` is the parsed file, `file` its name as messages show it."""
    errors = error.errors(include_url=False, include_context=False)
    first = min(errors, key=lambda one: one["type"] != "extra_forbidden")
    path = first["loc"]
    others = [loc for loc in _innermost([one["loc"] for one in errors]) if loc != path]
    is_unknown = first["type"] == "extra_forbidden"
    if is_unknown:
        others = [loc for loc in others if not _is_misspelt(path, loc)]
    why = f"also wrong: {_listed(others)}" if others else ""
    if is_unknown:
        return _unknown_field(path, location(file, data, path), why)
    is_missing = first["type"] == "missing"
    found = "is missing" if is_missing else f"is {shown(first['input'])}"
    described, literals = _described(path)
    return wrong_field(
        f"{_label(path)} {found}",
        described.description or "a table",
        location(file, data, path),
        why=why,
        suggestion=closest(first["input"], literals) or _example(described, path[-1]),
    )


def _is_misspelt(found: Path, meant: Path) -> bool:
    """Whether an unknown field is probably a misspelling of a field of the same table.

    >>> _is_misspelt(("memories", 0, "sise"), ("memories", 0, "size"))
    True
    """
    return found[:-1] == meant[:-1] and closest(found[-1], [str(meant[-1])]) != ""


def _innermost(paths: Sequence[Path]) -> list[Path]:
    """The paths that lead into no other one: a list is not wrong beside one of its items.

    >>> _innermost([("memories", 0), ("memories",), ("name",)])
    [('memories', 0), ('name',)]
    """
    return [p for p in paths if not any(p == q[: len(p)] and p != q for q in paths)]


def _listed(paths: Sequence[Path]) -> str:
    texts = [".".join(map(str, path)) for path in paths[:MOST_LISTED]]
    more = len(paths) - len(texts)
    return ", ".join(texts) + (f" and {more} more" if more else "")


def wrong_field(
    found: str, allowed: str, where: str, *, why: str = "", suggestion: str = ""
) -> TargetError:
    """The error about one field: what it holds and which values are allowed."""
    return TargetError(
        "target-003", f"{found}, must be {allowed}", where=where, why=why, help=advice(suggestion)
    )


def advice(suggestion: str) -> str:
    """A suggestion, followed by where to find an example."""
    separator = " " if suggestion.endswith("?") else "; "
    return f"{suggestion}{separator}{EXAMPLE}" if suggestion else EXAMPLE


def location(file: str, data: Mapping[str, Any], path: Path) -> str:
    """The file and the table that holds the value at `path`.

    >>> location("my.toml", {"memories": [{"name": "sram"}]}, ("memories", 0, "size"))
    'my.toml, [[memories]] "sram"'
    >>> location("my.toml", {}, ("compiler", "zig", 1))
    'my.toml, [compiler]'
    """
    match [*path]:
        case [str(table), int(index), *_] if table in TargetFile.model_fields:
            entries = data.get(table)
            entry = entries[index] if isinstance(entries, list) and index < len(entries) else None
            name = entry.get("name") if isinstance(entry, dict) else None
            label = f'"{name}"' if isinstance(name, str) and name.isprintable() and name else ""
            return f"{file}, [[{table}]] {_shortened(label) or index + 1}"
        case [str(table), _, *_]:
            return f"{file}, [{table}]"
        case _:
            return file


_NEAR_TEXTS = 3  # Number of texts whose beginnings `closest` compares.


def _common_letters(one: str, other: str) -> int:
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def closest(found: object, known: Iterable[str]) -> str:
    """A suggestion of the known text that is nearest to the one found; empty if none is near.

    Among the nearest ones, the one with the longest common beginning: names of parts begin with
    their family."""
    text = str(found)[:LONGEST_SHOWN].lower()
    near = difflib.get_close_matches(text, list(known), _NEAR_TEXTS)
    if not near:
        return ""
    best = max(near, key=lambda name: _common_letters(text, name))
    return f'did you mean "{best}"?'


def shown(value: object) -> str:
    """A value as TOML spells it, shortened.

    >>> shown(True), shown("a\\tb"), shown(10**50), shown([1, 2])
    ('true', '"a\\\\tb"', '1000000000000000000000000000000000000... (51 characters)', 'a list')
    """
    match value:
        case bool():
            return str(value).lower()
        case str():
            return _shortened(json.dumps(value, ensure_ascii=not value.isprintable()))
        case list() | tuple():
            return "a list" if value else "an empty list"
        case dict():
            return "a table"
        case _:
            return _shortened(str(value))


def _shortened(text: str) -> str:
    if len(text) <= LONGEST_SHOWN:
        return text
    return f"{text[: LONGEST_SHOWN - 3]}... ({len(text)} characters)"


def _label(path: Path) -> str:
    """The field of a path, with the position in it where it is a list of values.

    >>> _label(("memories", 0, "holds", 1)), _label(("memories", 0)), _label(("core",))
    ('holds[1]', 'entry 1 of memories', 'core')
    """
    match [*path]:
        case [str(table), int(index)]:
            return f"entry {index + 1} of {table}"
        case [*_, str(field), int(index)]:
            return f"{field}[{index}]"
        case _:
            return str(path[-1])


def _described(path: Path) -> tuple[FieldInfo, Sequence[str]]:
    """The schema of the value at a path, and the texts that it enumerates, if it does."""
    found = _schema(path)
    table = _table_in(found.annotation)
    if table is not None and isinstance(path[-1], int):
        return FieldInfo(description=f"a table with the fields {', '.join(table.model_fields)}"), ()
    return found, [text for text in get_args(found.annotation) if isinstance(text, str)]


def _schema(path: Path) -> FieldInfo:
    """The schema of the value at a path; of the whole file for an empty path."""
    found = FieldInfo(annotation=TargetFile)
    for key in path:
        table = _table_in(found.annotation)
        if isinstance(key, int):
            found = FieldInfo.from_annotation(get_args(found.annotation)[0])
        elif table is not None:
            found = table.model_fields[key]
    return found


def _table_in(annotation: object) -> type[BaseModel] | None:
    """The table that an annotation such as `tuple[MemoryTable, ...]` consists of, if any."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (_table_in(argument) for argument in get_args(annotation))
    return next((table for table in found if table is not None), None)


def _example(field: FieldInfo, key: str | int) -> str:
    if not field.examples:
        return ""
    assignment = f"{key} = " if isinstance(key, str) else ""
    return f"for example {assignment}{json.dumps(field.examples[0])}"


def _unknown_field(path: Path, where: str, why: str) -> TargetError:
    table = _table_in(_schema(path[:-1]).annotation)
    assert table is not None, path
    fields = list(table.model_fields)
    return TargetError(
        "target-003",
        f"unknown field {shown(path[-1])}, must be one of {', '.join(fields)}",
        where=where,
        why=why,
        help=advice(closest(path[-1], fields) or "remove it"),
    )
