"""Parses the C headers of kernels with regular expressions.

This suffices for the headers of the runtime, which are plain C11 in a uniform style.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

RUNTIME = files("penstock.runtime")


@dataclass(frozen=True, slots=True)
class Header:
    """Declarations of a kernel's header.

    `members`: (C type, name) of the members of `struct NAME`, in order; `signature`: parameters of
    the function NAME; `text`: the header and its includes, without comments.
    """

    members: tuple[tuple[str, str], ...]
    signature: str
    text: str


@cache
def header(name: str) -> Header:
    """The header of kernel `name` in the runtime folder."""
    text = _text(f"{name}.h")
    macros = dict(re.findall(r"^#define (\w+)[ \t]+(.*)$", text, re.MULTILINE))
    body = re.search(rf"struct {name} \{{(.*?)\}};", text, re.DOTALL)
    function = re.search(
        rf"PENSTOCK_(?:INLINE_)?KERNEL void {name}\((.*?)\)\s*\{{", text, re.DOTALL
    )
    assert body, f"{name}.h defines no struct {name}"
    assert function, f"{name}.h defines no kernel {name}()"
    return Header(_members(body[1], macros), " ".join(function[1].split()), text)


def _text(file: str, seen: frozenset[str] = frozenset()) -> str:
    """The file with includes expanded, comments removed and continued lines joined."""
    text = (RUNTIME / file).read_text()
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL).replace("\\\n", " ")

    def included(found: re.Match[str]) -> str:
        return "" if found[1] in seen else _text(found[1], seen | {file})

    return re.sub(r'#include "([^"]+)"', included, text)


def _members(body: str, macros: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """(type, name) of every member; `int32_t a, b;` declares two members."""
    # A macro may use those defined before it.
    for name, replacement in reversed(macros.items()):
        body = re.sub(rf"\b{name}\b", lambda _, text=replacement: text, body)
    found: list[tuple[str, str]] = []
    for declaration in filter(None, map(str.strip, body.split(";"))):
        parts = re.fullmatch(r"(int32_t|const \w+) *(\**\w+(?:\s*,\s*\**\w+)*)", declaration)
        assert parts, f"a member of another form: {declaration}"
        for name in re.split(r"\s*,\s*", parts[2]):
            found.append((parts[1] + " *" * name.count("*"), name.lstrip("*")))
    return tuple(found)
