"""Source: the parsed modules of a package."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path


@dataclass(frozen=True)
class Module:
    """A Python file.  `name`: dotted name; `path`: relative to the folder that holds the package;
    `package`: whether the file is an `__init__.py`."""

    name: str
    path: str
    text: str
    package: bool

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Every node of the syntax tree."""
        return tuple(ast.walk(self.tree))

    def at(self, node: ast.AST) -> str:
        """The place of a node, as "path:line"."""
        return f"{self.path}:{getattr(node, 'lineno', 0)}"


@dataclass(frozen=True)
class Source:
    """The modules of a package, by dotted name.  `folder`: the folder that holds the package."""

    folder: Path
    modules: Mapping[str, Module]

    def inside(self, package: str) -> Iterator[Module]:
        """The modules of a package and its subpackages."""
        prefix = f"{package}."
        return (m for name, m in self.modules.items() if f"{name}.".startswith(prefix))


def read_source(folder: Path, package: str) -> Source:
    """Parses every module of `folder/package`, in order of path."""
    modules = (_read(folder, path) for path in sorted((folder / package).rglob("*.py")))
    return Source(folder, {module.name: module for module in modules})


def together(first: Source, *others: Source) -> Source:
    """The modules of several packages, in the folder of the first."""
    modules = {name: m for source in (first, *others) for name, m in source.modules.items()}
    return Source(first.folder, modules)


def _read(folder: Path, path: Path) -> Module:
    relative = path.relative_to(folder)
    package = path.stem == "__init__"
    parts = relative.parent.parts if package else relative.with_suffix("").parts
    return Module(".".join(parts), relative.as_posix(), path.read_text("utf-8"), package)
