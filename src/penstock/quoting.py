"""Quoting: names and strings as tokens of text forms, and of messages.

name      conv1/weights     a letter or "_", then letters, digits and "_"; "." and "/" between
string    "any name\n"      as in JSON
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:[./][A-Za-z0-9_]+)*")


def is_name(text: str) -> bool:
    """Whether a name is one token, so that it needs no quotes.

    >>> is_name("block1/pointwise"), is_name("two words"), is_name("x#2")
    (True, False, False)
    """
    return _NAME.fullmatch(text) is not None


def quoted(text: str) -> str:
    """The string token of a text."""
    return json.dumps(text)


def name_or_string(text: str) -> str:
    """The token of a name: bare where possible, else quoted."""
    return text if is_name(text) else quoted(text)


def each_quoted(names: Iterable[str]) -> str:
    """Names in quotes, in a message.

    >>> each_quoted(("x", "y"))
    '"x", "y"'
    """
    return ", ".join(f'"{name}"' for name in names)


def typed(dtype: str, shape: Iterable[int | str]) -> str:
    """An element type and a shape, in a message.

    >>> typed("int8", (1, 3))
    'int8[1,3]'
    """
    return f"{dtype}[{','.join(map(str, shape))}]"
