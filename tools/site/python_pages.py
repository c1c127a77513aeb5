"""Reference of the Python API: pages that let Sphinx read the docstrings of public names."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import ModuleType

from tools.site.docstrings import as_rst, keyword_record

PAGES: Mapping[str, str] = {
    "penstock": "Python API",
    "penstock.uma": "Interface for accelerators",
    "penstock.cascader": "Cascading scheduler",
}
"""Title of the page of each public module."""


def pages() -> dict[str, str]:
    """Return the pages by path in the site."""
    known: set[int] = set()
    found: dict[str, str] = {}
    for name, title in PAGES.items():
        module = importlib.import_module(name)
        found[f"reference/{name}.rst"] = "\n".join(_page(module, title, known))
        known.update(id(getattr(module, public)) for public in module.__all__)
    return found


GROUPS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "Functions": (inspect.isroutine, "autofunction"),
    "Errors": (
        lambda thing: inspect.isclass(thing) and issubclass(thing, Exception),
        "autoexception",
    ),
    "Classes": (inspect.isclass, "autoclass"),
}
"""Kind of a public name, and the directive of Sphinx; the first kind that applies counts."""
ORDER = ("Functions", "Classes", "Errors")


def _page(module: ModuleType, title: str, known: set[int]) -> Iterator[str]:
    """Yield the lines of a page; names in `known` have an entry on an earlier page."""
    yield from (title, "=" * len(title), "")
    yield from _introduction(module)
    public = [
        name
        for name in module.__all__
        if id(getattr(module, name)) not in known and _documented(getattr(module, name))
    ]
    for group in ORDER:
        names = [name for name in public if _group(getattr(module, name)) == group]
        if names:
            yield from (group, "-" * len(group), "")
        if group == "Functions":
            yield from _keyword_records(module, names)
        for name in names:
            yield f".. {GROUPS[group][1]}:: {module.__name__}.{name}"
            if group == "Classes":
                yield "   :members:"
            yield ""


def _keyword_records(module: ModuleType, functions: Iterable[str]) -> Iterator[str]:
    """Yield an entry for each record of keyword arguments that signatures do not list."""
    for record in dict.fromkeys(keyword_record(getattr(module, name)) for name in functions):
        if record is not None:
            yield from (f".. autoclass:: {record.__module__}.{record.__name__}", "")


def _introduction(module: ModuleType) -> Iterator[str]:
    """Yield the docstring of a module without its name and without paths of the repository."""
    text = inspect.cleandoc(module.__doc__ or "").removeprefix(f"{module.__name__}: ")
    text = re.sub(r"\n\nSource: .*", "", text, flags=re.DOTALL)
    yield from as_rst((text[:1].upper() + text[1:]).splitlines(), ())


def _group(thing: object) -> str | None:
    return next((name for name, (applies, _) in GROUPS.items() if applies(thing)), None)


def _documented(thing: object) -> bool:
    """Whether a name has a docstring of its own, and not the signature of a dataclass."""
    own = getattr(thing, "__doc__", None)
    if own and inspect.isclass(thing) and dataclasses.is_dataclass(thing):
        return not own.startswith(f"{thing.__name__}(")
    return bool(own)
