"""Definitions: argument counts and uses of `Any`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tools.structure.source import Module, Source

MAX_ARGUMENTS = 7
"""Most parameters of a function, `self` and `cls` not counted."""

ARRAYS = ("NDArray", "ndarray", "dtype")
"""Types whose parameters may be `Any`."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef


def long_signatures(source: Source, limit: int = MAX_ARGUMENTS) -> Iterator[str]:
    """Functions with more than `limit` parameters, as "path:line name (count)".

    Commands of the command line are exempt: their parameters are the options of the command."""
    for module in source.modules.values():
        for node in module.nodes:
            if isinstance(node, Function) and not _is_command(node):
                count = _argument_count(node)
                if count > limit:
                    yield f"{module.at(node)} {node.name} ({count})"


def uses_of_any(source: Source) -> Iterator[str]:
    """Places of the type `Any`, except imports and element types of arrays (`NDArray[Any]`)."""
    for module in source.modules.values():
        subscripts = (node for node in module.nodes if isinstance(node, ast.Subscript))
        arrays = [node for node in subscripts if ast.unparse(node.value).endswith(ARRAYS)]
        exempt = {id(node) for array in arrays for node in ast.walk(array.slice)}
        for node in module.nodes:
            if _is_any(node) and id(node) not in exempt:
                yield module.at(node)


def functions_named(module: Module) -> Iterator[tuple[str, str]]:
    """(name, place) of every function and class of a module."""
    for node in module.nodes:
        if isinstance(node, Definition):
            yield node.name, module.at(node)


def _argument_count(node: Function) -> int:
    arguments = node.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def _is_command(node: Function) -> bool:
    """Whether a decorator registers the function as a command."""
    calls = (d.func for d in node.decorator_list if isinstance(d, ast.Call))
    return any(isinstance(call, ast.Attribute) and call.attr == "command" for call in calls)


def _is_any(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == "Any"
    return isinstance(node, ast.Name) and node.id == "Any"
