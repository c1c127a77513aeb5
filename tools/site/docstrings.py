"""Docstrings of penstock as reStructuredText: paragraphs, "name: meaning" lists, examples, code."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from textwrap import dedent

ITEM = re.compile(r"([^:\s][^:]{0,60}): ")
COLUMNS = re.compile(r"(\S+(?: \S+)*) {2,}(\S.*)")
"""A line of two columns, a term and its meaning."""
MARKUP = re.compile(r"(`[^`]*`)|([*|]|(?<=\w)_(?!\w))")


def as_rst(lines: Sequence[str], names: Collection[str]) -> list[str]:
    """Return a docstring as reStructuredText.

    names: parameters or fields.  A line "name: meaning" that begins with one of them becomes an
        item of a list, and so does each line with a label if indented lines continue it.
    """
    found: list[str] = []
    for paragraph in _paragraphs(lines):
        found += [*_converted(paragraph, names), ""]
    return found


def _paragraphs(lines: Sequence[str]) -> Iterator[list[str]]:
    paragraph: list[str] = []
    for line in [*lines, ""]:
        if line.strip():
            paragraph.append(line)
        elif paragraph:
            yield paragraph
            paragraph = []


def _converted(paragraph: list[str], names: Collection[str]) -> Iterator[str]:
    rest = paragraph[1:]
    if paragraph[0].lstrip().startswith(">>>"):
        yield from paragraph
    elif paragraph[0].endswith(":") and rest and all(line.startswith(" ") for line in rest):
        yield from (_escaped(paragraph[0]), "")
        yield from _converted(dedent("\n".join(rest)).splitlines(), names)
    elif all(line.startswith(" ") for line in paragraph):
        yield from ("::", "", *paragraph)
    elif " " * 3 in paragraph[0].strip():
        for line in paragraph:
            term = COLUMNS.match(line)
            yield f"- {term[1]}: {_escaped(term[2])}" if term else f"  {_escaped(line.strip())}"
    else:
        in_list, hanging = False, any(line.startswith(" ") for line in paragraph)
        for line in paragraph:
            match = ITEM.match(line)
            labelled = [name.strip("`*") for name in match[1].split(", ")] if match else []
            if match and (hanging or set(labelled) <= set(names)):
                yield from (() if in_list else ("",))
                in_list = True
                yield f"- {', '.join(map(_label, labelled))}: {_escaped(line[match.end() :])}"
            elif in_list and line.startswith(" "):
                yield f"  {_escaped(line.strip())}"
            else:
                yield from ("",) if in_list else ()
                in_list = False
                yield _escaped(line)


def _label(name: str) -> str:
    return f"``{name}``" if name.isidentifier() else _escaped(name)


def _escaped(line: str) -> str:
    """Escape what reStructuredText would take for markup, except for code in backquotes."""
    return MARKUP.sub(lambda m: f"`{m[1]}`" if m[1] else f"\\{m[2]}", line)


def names_of(thing: object) -> frozenset[str]:
    """Return the names of the parameters of a function, or of the fields of a class."""
    if inspect.isclass(thing):
        names = {name for base in thing.__mro__ for name in getattr(base, "__annotations__", ())}
        return frozenset(names | {n for n in vars(thing) if not n.startswith("_")})
    if not callable(thing):
        return frozenset()
    signature = inspect.signature(thing)
    return frozenset(
        (*signature.parameters, *getattr(keyword_record(thing), "__annotations__", ()))
    )


def keyword_record(function: Callable[..., object]) -> type | None:
    """Return the TypedDict that states the keyword arguments of a function, `**x: Unpack[It]`."""
    for parameter in inspect.signature(function).parameters.values():
        matched = re.fullmatch(r"Unpack\[(\w+)\]", str(parameter.annotation))
        if matched and parameter.kind is inspect.Parameter.VAR_KEYWORD:
            return getattr(function, "__globals__", {}).get(matched[1])
    return None
