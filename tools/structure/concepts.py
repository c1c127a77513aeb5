"""Concepts: each has one home in the package.

Domination of cost vectors lives in `pareto.py`, prefetching of the scheduler in
`scheduling/prefetch/`, and `ops/` holds operators only.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tools.structure.definitions import Definition, functions_named
from tools.structure.source import Source

DOMINATION_NAMES = re.compile(
    r"dominat|pareto|unbeaten|efficient(?!net)|worth_placing|_noticed", re.I
)
"""Names of functions and classes that decide which candidates are Pareto-optimal; EfficientNet is a
network."""
_PATTERN_METHODS = frozenset({"dominates"})
"""Methods of patterns named after TVM's, where a node dominates a sub-graph."""
PREFETCH_NAMES = re.compile(r"prefetch|offer|fetched|ahead", re.I)
"""Names of functions and classes of the prefetch concept."""
_NOT_OPERATORS = frozenset({"__init__", "registry"})


def domination_elsewhere(source: Source, package: str) -> Iterator[str]:
    """Definitions and comparisons of domination outside `pareto.py`.

    A comparison is `a.x <= b.x and a.y <= b.y`: the same members of two values, all compared in
    the same direction."""
    home = f"{package}.pareto"
    for name, module in source.modules.items():
        if name == home:
            continue
        for defined, place in functions_named(module):
            if DOMINATION_NAMES.search(defined) and defined not in _PATTERN_METHODS:
                yield f"{place} {defined}"
        for node in module.nodes:
            if isinstance(node, ast.BoolOp) and _compares_members(node):
                yield f"{module.at(node)} {ast.unparse(node)}"


def prefetch_elsewhere(source: Source, package: str) -> Iterator[str]:
    """Public classes and functions of the prefetch concept in `scheduling/`, outside of its folder.

    Methods and private helpers may mention the concept; they use it."""
    home = f"{package}.scheduling.prefetch."
    for module in source.inside(f"{package}.scheduling"):
        if f"{module.name}.".startswith(home):
            continue
        for node in module.tree.body:
            if not isinstance(node, Definition) or node.name.startswith("_"):
                continue
            if PREFETCH_NAMES.search(node.name):
                yield f"{module.at(node)} {node.name}"


def operator_helpers(source: Source, package: str) -> Iterator[str]:
    """Modules of `ops/` that define no public class, so no operator."""
    folder = f"{package}.ops"
    for module in source.inside(folder):
        if module.name.rpartition(".")[2] in _NOT_OPERATORS or module.name == folder:
            continue
        if not any(map(_is_public_class, module.tree.body)):
            yield module.path


def _is_public_class(node: ast.stmt) -> bool:
    return isinstance(node, ast.ClassDef) and not node.name.startswith("_")


def _compares_members(node: ast.BoolOp) -> bool:
    """Whether a conjunction compares the same members of two values in one direction."""
    if not isinstance(node.op, ast.And) or len(node.values) < 2:
        return False
    found = [_member_comparison(value) for value in node.values]
    return None not in found and len(set(found)) == 1


def _member_comparison(node: ast.expr) -> tuple[str, str, bool] | None:
    """(lesser value, greater value, whether attributes) of `a.x <= b.x` or `a[0] <= b[0]`."""
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return None
    lesser, greater = node.left, node.comparators[0]
    if isinstance(node.ops[0], ast.Gt | ast.GtE):
        lesser, greater = greater, lesser
    elif not isinstance(node.ops[0], ast.Lt | ast.LtE):
        return None
    one, other = _member(lesser), _member(greater)
    if one is None or other is None or one[1] != other[1] or one[0] == other[0]:
        return None
    return one[0], other[0], isinstance(lesser, ast.Attribute)


def _member(node: ast.expr) -> tuple[str, str] | None:
    """(value, member) of an attribute or subscript."""
    if isinstance(node, ast.Attribute):
        return ast.unparse(node.value), node.attr
    if isinstance(node, ast.Subscript):
        return ast.unparse(node.value), ast.unparse(node.slice)
    return None
