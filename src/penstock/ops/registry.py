"""Registry: finds the operators by walking this folder; nobody lists them.

A module of this folder is an operator file where it defines `from_foreign`; its operators are the
classes with a `FOREIGN` attribute that it defines.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import ModuleType

import penstock.ops as folder
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.op import Op

FromForeign = Callable[[ForeignNode], Iterable[Made]]


@dataclass(frozen=True, slots=True)
class OperatorFile:
    """One file of this folder: its operators, and how it understands foreign nodes."""

    module: ModuleType
    ops: tuple[type[Op], ...]
    from_foreign: FromForeign

    @property
    def foreign_names(self) -> tuple[str, ...]:
        return tuple(name for op in self.ops for name in op.FOREIGN)


@cache
def operator_files() -> tuple[OperatorFile, ...]:
    """Every operator file, by name."""
    found: list[OperatorFile] = []
    for info in sorted(pkgutil.iter_modules(folder.__path__), key=lambda i: i.name):
        module = importlib.import_module(f"{folder.__name__}.{info.name}")
        if hasattr(module, "from_foreign"):
            found.append(OperatorFile(module, _ops_of(module), module.from_foreign))
    return tuple(found)


def _ops_of(module: ModuleType) -> tuple[type[Op], ...]:
    return tuple(
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and hasattr(value, "FOREIGN")
        and value.__module__ == module.__name__
    )


@cache
def operators() -> Mapping[str, type[Op]]:
    """Every operator class, by its name."""
    return {op.__name__: op for file in operator_files() for op in file.ops}


@cache
def foreign_names() -> Mapping[str, FromForeign]:
    """By name in a model file format, the function that understands a node of that name."""
    return {name: file.from_foreign for file in operator_files() for name in file.foreign_names}
