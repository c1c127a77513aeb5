"""The settings as keywords of functions, with their help."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from typing import ForwardRef, TypeVar

from penstock.api.settings import Settings
from penstock.pipeline.request import KEYWORDS
from penstock.setting import AnySetting

_Function = TypeVar("_Function", bound=Callable[..., object])
_WIDTH = 100


def with_settings(function: _Function) -> _Function:
    """Show each setting as a keyword parameter of a function, and describe it in its docstring.

    Type checkers derive the same from `Unpack[Settings]`; `help` and notebooks do not."""
    signature = inspect.signature(function)
    *own, rest = signature.parameters.values()
    assert rest.kind is inspect.Parameter.VAR_KEYWORD
    shown = signature.replace(parameters=[*own, *_keywords()])
    function.__signature__ = shown  # pyright: ignore[reportFunctionMemberAccess]
    own_text = inspect.cleandoc(function.__doc__ or "")
    function.__doc__ = "\n".join((own_text, "", "Settings:", *map(_described, KEYWORDS)))
    return function


def _keywords() -> list[inspect.Parameter]:
    kind, types = inspect.Parameter.KEYWORD_ONLY, Settings.__annotations__
    return [
        inspect.Parameter(
            one.name, kind, default=one.python_default, annotation=_text(types[one.name])
        )
        for one in KEYWORDS
    ]


def _text(annotation: str | ForwardRef) -> str:
    """An annotation as it is written; the classes that it names take long to import."""
    return annotation.__forward_arg__ if isinstance(annotation, ForwardRef) else annotation


def _described(one: AnySetting) -> str:
    text = f"{one.name}: {one.python}."
    return textwrap.fill(text, _WIDTH, initial_indent="  ", subsequent_indent="    ")
