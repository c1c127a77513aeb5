"""Registry: discovers the operators of this folder and answers queries about them.

A module of this folder is an operator file if it defines subclasses of `OperatorDefaults`.  Its
function `from_foreign` turns TFLite nodes with one of the operators' TFLITE names into nodes of the
graph, and `from_onnx` does so for ONNX nodes; operators without such names are created by passes.
A module without operators of its own may compose nodes of others: its `ONNX` states the names.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache
from types import ModuleType
from typing import cast

from penstock.frozen import frozen
from penstock.ir.foreign import ForeignNode, Nodes
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Op, OperatorDefaults
from penstock.ir.operator_facts import OnnxName
from penstock.ops.concatenation import Concatenation

COPY: Op = Concatenation(axis=0)
"""The operator that copies a tensor: a concatenation of one input."""
FromForeign = Callable[[ForeignNode], Nodes]
FromOnnx = Callable[[OnnxNode], Nodes]


@frozen
class OperatorFile:
    """One operator file: its operators and the functions that import nodes."""

    module: ModuleType
    ops: tuple[type[Op], ...]
    from_foreign: FromForeign | None
    from_onnx: FromOnnx | None

    @property
    def is_family(self) -> bool:
        """Whether the file defines several operators, which their own docstrings describe."""
        return len(self.ops) > 1

    def summary(self, op: type[Op]) -> str:
        """What an operator of the file computes: the first line of the module's docstring, without
        the operator's name; in a family, that of the class."""
        if self.is_family:
            line = (op.__doc__ or "").splitlines()[0]
            word = line.partition(" ")[0]
            is_name = word == op.__name__ or (len(word) > 1 and word.isupper())
            return line if is_name else line[:1].lower() + line[1:]
        return (self.module.__doc__ or "").splitlines()[0].split(": ", 1)[-1]

    def definition(self, op: type[Op]) -> str:
        """The docstring of the file; in a family, after that of the operator."""
        file = inspect.cleandoc(self.module.__doc__ or op.__name__)
        return f"{op.__name__}: {inspect.getdoc(op)}\n\n{file}" if self.is_family else file


@cache
def operator_files() -> tuple[OperatorFile, ...]:
    """Every operator file, in order of module names."""
    return tuple(
        OperatorFile(
            module,
            _operators_in(module),
            getattr(module, "from_foreign", None),
            getattr(module, "from_onnx", None),
        )
        for module in _modules()
        if _operators_in(module)
    )


@cache
def _modules() -> tuple[ModuleType, ...]:
    """Every module of this folder, in order of names."""
    path = importlib.import_module("penstock.ops").__path__
    # Sorted, so that no list depends on the file system.
    names = sorted(info.name for info in pkgutil.iter_modules(path))
    return tuple(importlib.import_module(f"penstock.ops.{name}") for name in names)


def compositions() -> tuple[ModuleType, ...]:
    """The modules that compose ONNX nodes of operators of other modules."""
    return tuple(module for module in _modules() if hasattr(module, "ONNX"))


def _operators_in(module: ModuleType) -> tuple[type[Op], ...]:
    found = [one for one in public_classes(module) if issubclass(one, OperatorDefaults)]
    return cast(tuple[type[Op], ...], tuple(found))


def public_classes(module: ModuleType) -> tuple[type, ...]:
    """Public classes that a module defines, in order of definition."""
    return tuple(
        value
        for name, value in vars(module).items()
        if isinstance(value, type)
        and value.__module__ == module.__name__
        and not name.startswith("_")
    )


@cache
def operators() -> Mapping[str, type[Op]]:
    """Every operator class, by its name."""
    return {op.__name__: op for file in operator_files() for op in file.ops}


@cache
def foreign_names() -> Mapping[str, FromForeign]:
    """By name of a TFLite operator, the function that imports its nodes."""
    return {
        name: file.from_foreign
        for file in operator_files()
        if file.from_foreign is not None
        for op in file.ops
        for name in op.TFLITE
    }


@cache
def onnx_names() -> Mapping[str, tuple[OnnxName, FromOnnx]]:
    """By name of an ONNX operator, how its nodes are presented and the function that imports
    them."""
    of_ops = {
        name: (presentation, file.from_onnx)
        for file in operator_files()
        if file.from_onnx is not None
        for op in file.ops
        for name, presentation in op.ONNX.items()
    }
    composed = {
        name: (presentation, module.from_onnx)
        for module in compositions()
        for name, presentation in module.ONNX.items()
    }
    return of_ops | composed
