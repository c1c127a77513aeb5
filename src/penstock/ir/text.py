"""Text form of every noun: `parse(show(x), classes) == x`.

A noun is a frozen dataclass; its text is the Python expression that would build it, without the
fields that have their defaults, laid out one field a line where it does not fit one line.  Bytes of
constants and long rows of numbers stand at the end, once each, as lines `data <name> <base85>` and
`numbers <name> <numbers>`, and are named by their digest where they are used; `show` may leave
those lines out, and then the text cannot be read back.

>>> from penstock.ir.region import Region
>>> show(Region((0, 2), (4, 5)))
'Region(lower=(0, 2), upper=(4, 5))\\n'
"""

from __future__ import annotations

import ast
import base64
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from typing import Any

from penstock.errors import ModelError
from penstock.ir.tensor import Data

WIDTH = 100
LONG = 16
"""Rows of more numbers than this stand at the end."""


def show(noun: object, *, with_data: bool = True) -> str:
    """The noun as text; without `with_data`, the bytes of its constants are left out."""
    found: dict[str, str] = {}
    text = _show(noun, 0, found) + "\n"
    return text + "".join(f"{line}\n" for line in found.values()) if with_data else text


def _show(x: object, indent: int, found: dict[str, str]) -> str:
    if isinstance(x, Data):
        name = _digest(x.raw)
        found[f"data {name}"] = f"data {name} {base64.b85encode(x.raw).decode()}"
        return f'Data("{name}")'
    if isinstance(x, bytes):
        return _show(Data(x), indent, found).replace("Data", "Bytes", 1)
    if isinstance(x, tuple) and len(x) > LONG and all(type(i) in (int, float) for i in x):
        numbers = " ".join(map(_number, x))
        name = _digest(numbers.encode())
        found[f"numbers {name}"] = f"numbers {name} {numbers}"
        return f'Numbers("{name}")'
    if isinstance(x, Enum) or callable(x):
        return _name(x)
    if isinstance(x, tuple):
        items: tuple[Any, ...] = x
        return _layout("(", [_show(item, indent + 2, found) for item in items], ")", indent)
    if is_dataclass(x) and not isinstance(x, type):
        told = [f for f in fields(x) if f.init and getattr(x, f.name) != f.default]
        parts = [f"{f.name}={_show(getattr(x, f.name), indent + 2, found)}" for f in told]
        return _layout(f"{type(x).__name__}(", parts, ")", indent)
    if isinstance(x, Fraction):
        return f"Fraction({x.numerator}, {x.denominator})"
    if isinstance(x, float):
        return _number(x)
    if x is None or isinstance(x, bool | int | str):
        return repr(x)
    raise TypeError(f"{type(x).__name__} has no text form")


def _name(x: object) -> str:
    """An enumeration's member by name; functions and classes by the name of their definition."""
    if isinstance(x, Enum):
        return f"{type(x).__name__}.{x.name}"
    return getattr(x, "__qualname__", type(x).__qualname__)


def _number(x: float) -> str:
    """A number as Python writes it; infinity, which has no literal, as one that is too large."""
    return repr(x).replace("inf", "1e999")


def _layout(opening: str, parts: list[str], closing: str, indent: int) -> str:
    comma = "," if opening == "(" and len(parts) == 1 else ""
    line = f"{opening}{', '.join(parts)}{comma}{closing}"
    if len(line) + indent <= WIDTH and "\n" not in line:
        return line
    pad = " " * (indent + 2)
    return opening + "".join(f"\n{pad}{part}," for part in parts) + "\n" + " " * indent + closing


def parse(text: str, classes: Mapping[str, type]) -> Any:
    """The noun that `text` shows.  `classes`: by name, every class that may stand in it.

    Raises ModelError where the text is malformed or its data was left out."""
    try:
        body, data = _split(text)
        tree = ast.parse(body.strip(), mode="eval").body
        return _build(tree, classes, data)
    except _MALFORMED as error:
        raise ModelError(
            "text-001",
            f"the text cannot be read: {error}",
            where="text form",
            help="print it again with its data",
        ) from error


_MALFORMED = (
    ArithmeticError,  # Fraction(1, 0)
    LookupError,
    MemoryError,  # Python's word for brackets nested too deeply, as RecursionError
    RecursionError,
    SyntaxError,
    TypeError,
    ValueError,
)


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()[:16]


def _split(text: str) -> tuple[str, dict[tuple[str, object], object]]:
    """The expression, and what ("Data" or "Numbers", name) stand for."""
    known: dict[tuple[str, object], object] = {}
    body: list[str] = []
    for line in text.splitlines(keepends=True):
        kind, _, rest = line.rstrip("\n").partition(" ")
        name, _, content = rest.partition(" ")
        if kind == "data":
            known["Data", name] = Data(base64.b85decode(content))
        elif kind == "numbers":
            known["Numbers", name] = tuple(ast.literal_eval(number) for number in content.split())
        else:
            body.append(line)
    return "".join(body), known


def _build(
    tree: ast.expr, classes: Mapping[str, type], data: Mapping[tuple[str, object], object]
) -> Any:
    def build(child: ast.expr) -> Any:
        return _build(child, classes, data)

    match tree:
        case ast.Constant(value=value):
            return value
        case ast.Tuple(elts=items):
            return tuple(build(item) for item in items)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -build(operand)
        case ast.Attribute(value=ast.Name(id=name), attr=member):
            return _member(classes[name], member)
        case ast.Call(
            func=ast.Name(id="Data" | "Numbers" | "Bytes" as kind), args=[ast.Constant(value=name)]
        ):
            return _known(kind, name, data)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
            make: Callable[..., Any] = Fraction if name == "Fraction" else classes[name]
            return make(*map(build, args), **{str(k.arg): build(k.value) for k in keywords})
        case _:
            raise ValueError(f"{ast.dump(tree)[:60]} does not belong into the text of a noun")


def _member(enumeration: type, member: str) -> Enum:
    if not issubclass(enumeration, Enum):
        raise ValueError(f"{enumeration.__name__} is no enumeration")
    return enumeration[member]


def _known(kind: str, name: object, data: Mapping[tuple[str, object], object]) -> object:
    """What a name stands for; bytes stand at the end as data do."""
    found = data.get(("Data" if kind == "Bytes" else kind, name))
    if found is None:
        raise ValueError(f"data {name} was left out")
    return found.raw if kind == "Bytes" and isinstance(found, Data) else found
