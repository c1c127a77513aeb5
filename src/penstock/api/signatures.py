"""Signatures and docstrings of functions that take `Settings`: each setting is shown by name.

Type checkers derive the same from `Unpack[Settings]`; `help` and notebooks do not.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from typing import TypeVar, get_args, get_type_hints

from penstock.api.settings import DEFAULT_SETTINGS, Settings

_Function = TypeVar("_Function", bound=Callable[..., object])
_WIDTH = 100


def with_settings(function: _Function) -> _Function:
    """Show each setting as a keyword parameter of a function, and describe it in its docstring."""
    signature = inspect.signature(function)
    *own, rest = signature.parameters.values()
    assert rest.kind is inspect.Parameter.VAR_KEYWORD
    hints = get_type_hints(Settings, include_extras=True)
    keywords = [_parameter(name, hint) for name, hint in hints.items()]
    shown = signature.replace(parameters=[*own, *keywords])
    function.__signature__ = shown  # pyright: ignore[reportFunctionMemberAccess]
    listed = (_described(name, get_args(hint)[1]) for name, hint in hints.items())
    own_text = inspect.cleandoc(function.__doc__ or "")
    function.__doc__ = "\n".join((own_text, "", "Settings:", *listed))
    return function


def _parameter(name: str, hint: object) -> inspect.Parameter:
    """A setting as a keyword parameter."""
    default, annotation = DEFAULT_SETTINGS[name], get_args(hint)[0]
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _described(name: str, text: str) -> str:
    """A setting and its description, wrapped."""
    return textwrap.fill(f"{name}: {text}.", _WIDTH, initial_indent="  ", subsequent_indent="    ")
