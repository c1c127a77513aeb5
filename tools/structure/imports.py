"""Imports between the modules of a package, and their cycles.

Every import statement counts: at the top of a module, inside a function, and under
`if TYPE_CHECKING`, which other checkers ignore.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

import rustworkx as rx

from tools.structure.source import Module, Source


def import_cycles(source: Source) -> tuple[tuple[str, ...], ...]:
    """Groups of modules that import each other, directly or indirectly, sorted by name.

    These are the strongly connected components with more than one module, and modules that import
    themselves."""
    edges = imports(source)
    graph: rx.PyDiGraph[str, None] = rx.PyDiGraph()
    index = {name: graph.add_node(name) for name in edges}
    for name, targets in edges.items():
        graph.add_edges_from_no_data([(index[name], index[target]) for target in targets])
    components = rx.strongly_connected_components(graph)
    groups = [sorted(graph[k] for k in component) for component in components]
    return tuple(sorted(tuple(g) for g in groups if len(g) > 1 or g[0] in edges[g[0]]))


def imports(source: Source) -> Mapping[str, frozenset[str]]:
    """The modules of the package that each module imports."""
    return {
        name: frozenset(
            target
            for node in module.nodes
            for imported in _imported_names(module, node)
            if (target := _module_of(imported, source)) is not None
        )
        for name, module in source.modules.items()
    }


def _imported_names(module: Module, node: ast.AST) -> Iterator[str]:
    """Dotted names that a statement imports: modules, or members of modules."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = _absolute(module, node)
        yield from (f"{base}.{alias.name}" for alias in node.names)


def _absolute(module: Module, node: ast.ImportFrom) -> str:
    """The module that a `from` statement names, without leading dots."""
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    kept = parts[: len(parts) - node.level + module.package]
    return ".".join([*kept, *([node.module] if node.module else [])])


def _module_of(name: str, source: Source) -> str | None:
    """The module that a dotted name denotes or is a member of; None outside the package."""
    if name in source.modules:
        return name
    parent = name.rpartition(".")[0]
    return parent if parent in source.modules else None
