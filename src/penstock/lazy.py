"""lazy: packages whose names are imported on first use, so that commands load what they need."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping


def importer(package: str, modules: Mapping[str, Collection[str]]) -> Callable[[str], object]:
    """Return the function `__getattr__` of a package (PEP 562).

    modules: by name of a module, the names that the package imports from it.
    """

    def attribute(name: str) -> object:
        for module, names in modules.items():
            if name in names:
                found = getattr(importlib.import_module(module), name)
                setattr(importlib.import_module(package), name, found)  # found there from now on
                return found
        raise AttributeError(f"{package} has no {name!r}")

    return attribute
