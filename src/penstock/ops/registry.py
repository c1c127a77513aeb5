"""Registry: finds the operators by walking this folder; nobody lists them.

A module of this folder is an operator file where it defines operators: classes with a `FOREIGN`
attribute.  Those that stand in TFLite files come with `from_foreign`; passes make the others.
Where nodes of ONNX become one of its operators, the file has `ONNX`, names and what they ask for,
and `from_onnx`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, is_dataclass
from enum import Enum
from functools import cache
from types import ModuleType

import penstock.ops as folder
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.onnx_node import OnnxName, OnnxNode
from penstock.ir.op import Op

FromForeign = Callable[[ForeignNode], Iterable[Made]]
FromOnnx = Callable[[OnnxNode], Iterable[Made]]


@dataclass(frozen=True, slots=True)
class OperatorFile:
    """One file of this folder: its operators, and how it understands foreign nodes, if there are
    any."""

    module: ModuleType
    ops: tuple[type[Op], ...]
    from_foreign: FromForeign | None
    onnx: Mapping[str, OnnxName]
    from_onnx: FromOnnx | None

    @property
    def foreign_names(self) -> tuple[str, ...]:
        return tuple(name for op in self.ops for name in op.FOREIGN)

    def onnx_names(self, op: type[Op]) -> tuple[str, ...]:
        """Names in ONNX that become that operator, or others of the file that have no such name:
        those of the file's first."""
        own = {o.__name__ for o in self.ops}
        first = self.ops[0] is op
        return tuple(n for n in self.onnx if n == op.__name__ or (first and n not in own))


@cache
def operator_files() -> tuple[OperatorFile, ...]:
    """Every operator file, by name."""
    return tuple(
        OperatorFile(
            module,
            _ops_of(module),
            getattr(module, "from_foreign", None),
            getattr(module, "ONNX", {}),
            getattr(module, "from_onnx", None),
        )
        for module in _modules()
        if _ops_of(module)
    )


@cache
def _modules() -> tuple[ModuleType, ...]:
    """Every module of this folder, by name."""
    names = sorted(info.name for info in pkgutil.iter_modules(folder.__path__))
    return tuple(importlib.import_module(f"{folder.__name__}.{name}") for name in names)


def _ops_of(module: ModuleType) -> tuple[type[Op], ...]:
    return tuple(
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and hasattr(value, "FOREIGN")
        and value.__module__ == module.__name__
    )


def classes_of(module: ModuleType) -> tuple[type, ...]:
    """Classes that a module defines for others."""
    return tuple(
        value
        for name, value in vars(module).items()
        if isinstance(value, type)
        and value.__module__ == module.__name__
        and not name.startswith("_")
    )


@cache
def operand_classes() -> tuple[type, ...]:
    """Every record and enumeration of this folder: operators, and what their fields hold."""
    return tuple(
        value
        for module in _modules()
        for value in classes_of(module)
        if is_dataclass(value) or issubclass(value, Enum)
    )


@cache
def operators() -> Mapping[str, type[Op]]:
    """Every operator class, by its name."""
    return {op.__name__: op for file in operator_files() for op in file.ops}


@cache
def foreign_names() -> Mapping[str, FromForeign]:
    """By name in a model file format, the function that understands a node of that name."""
    files = ((file, file.from_foreign) for file in operator_files())
    return {
        name: understand
        for file, understand in files
        if understand is not None
        for name in file.foreign_names
    }


@cache
def onnx_names() -> Mapping[str, tuple[OnnxName, FromOnnx]]:
    """By name in ONNX, what its operator asks for and the function that understands it."""
    files = ((file, file.from_onnx) for file in operator_files())
    return {
        name: (asked, understand)
        for file, understand in files
        if understand is not None
        for name, asked in file.onnx.items()
    }
