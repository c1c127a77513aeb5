"""Counts in the source tree that may fall but not grow, recorded in `tests/ratchets.json`.

    python -m tools.structure [--details MEASURE|all] [--lower]

Counted are import cycles, functions with many parameters, uses of `Any` and symbols that nobody
uses.  Exits with 1 if a count is above its record.  `--details` prints the counted places;
`--lower` records counts that fell.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import rustworkx as rx
from vulture.core import Vulture

REPOSITORY = Path(__file__).resolve().parents[1]
RECORDS = REPOSITORY / "tests" / "ratchets.json"
PACKAGES = (
    REPOSITORY / "src" / "penstock",
    *(path.parent for path in sorted(REPOSITORY.glob("accelerators/*/src/*/__init__.py"))),
)
"""The core, and the packages of accelerators, which use what the core exports for them."""
USERS = ("README.md", "pyproject.toml", "docs/**/*.md", "examples/**/*.*", "accelerators/*/*.*")
"""Files whose code calls the packages from outside: documents, examples, entry points."""
MAX_ARGUMENTS = 7
"""Most parameters of a function, `self` and `cls` not counted."""
ARRAYS = ("NDArray", "ndarray", "dtype")
"""Types whose parameters may be `Any`."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """A Python file.  `name`: dotted name; `path`: relative to the folder that holds the package;
    `package`: whether the file is an `__init__.py`."""

    name: str
    path: str
    text: str
    package: bool

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Every node of the syntax tree."""
        return tuple(ast.walk(ast.parse(self.text, self.path)))

    def at(self, node: ast.AST) -> str:
        """The place of a node, as "path:line"."""
        return f"{self.path}:{getattr(node, 'lineno', 0)}"


Source = Mapping[str, Module]
"""The modules of one or more packages, by dotted name."""


def read_source(packages: Sequence[Path]) -> Source:
    """Parses every module of package folders, in order of path."""
    found = (_read(p.parent, path) for p in packages for path in sorted(p.rglob("*.py")))
    return {module.name: module for module in found}


def _read(folder: Path, path: Path) -> Module:
    relative = path.relative_to(folder)
    package = path.stem == "__init__"
    parts = relative.parent.parts if package else relative.with_suffix("").parts
    return Module(".".join(parts), relative.as_posix(), path.read_text("utf-8"), package)


def import_cycles(source: Source) -> tuple[tuple[str, ...], ...]:
    """Groups of modules that import each other, directly or indirectly, sorted by name.

    Every import statement counts: at the top of a module, inside a function, and under
    `if TYPE_CHECKING`, which other checkers ignore."""
    edges = imports(source)
    graph: rx.PyDiGraph[str, None] = rx.PyDiGraph()
    index = {name: graph.add_node(name) for name in edges}
    for name, targets in edges.items():
        graph.add_edges_from_no_data([(index[name], index[target]) for target in targets])
    components = rx.strongly_connected_components(graph)
    groups = [sorted(graph[k] for k in component) for component in components]
    return tuple(sorted(tuple(g) for g in groups if len(g) > 1 or g[0] in edges[g[0]]))


def imports(source: Source) -> Mapping[str, frozenset[str]]:
    """The modules of the source that each module imports."""
    return {
        name: frozenset(
            target
            for node in module.nodes
            for imported in _imported_names(module, node)
            if (target := _module_of(imported, source)) is not None
        )
        for name, module in source.items()
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
    """The module that a dotted name denotes or is a member of; None outside the source."""
    if name in source:
        return name
    parent = name.rpartition(".")[0]
    return parent if parent in source else None


def long_signatures(source: Source, limit: int = MAX_ARGUMENTS) -> Iterator[str]:
    """Functions with more than `limit` parameters, as "path:line name (count)".

    Commands of the command line are exempt: their parameters are the options of the command."""
    for module in source.values():
        for node in module.nodes:
            if isinstance(node, Function) and not _is_command(node):
                count = _argument_count(node)
                if count > limit:
                    yield f"{module.at(node)} {node.name} ({count})"


def _argument_count(node: Function) -> int:
    arguments = node.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def _is_command(node: Function) -> bool:
    """Whether a decorator registers the function as a command."""
    calls = (d.func for d in node.decorator_list if isinstance(d, ast.Call))
    return any(isinstance(call, ast.Attribute) and call.attr == "command" for call in calls)


def uses_of_any(source: Source) -> Iterator[str]:
    """Places of the type `Any`, except imports and element types of arrays (`NDArray[Any]`)."""
    for module in source.values():
        subscripts = (node for node in module.nodes if isinstance(node, ast.Subscript))
        arrays = [node for node in subscripts if ast.unparse(node.value).endswith(ARRAYS)]
        exempt = {id(node) for array in arrays for node in ast.walk(array.slice)}
        for node in module.nodes:
            if _is_any(node) and id(node) not in exempt:
                yield module.at(node)


def _is_any(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == "Any"
    return isinstance(node, ast.Name) and node.id == "Any"


DECORATORS = ["@*.command", "@*.callback", "@*_validator", "@*_serializer"]
"""Decorators that register a function with a framework, which calls it."""
IGNORED_NAMES = ["__*__", "_repr_*_", "_ipython_*", "model_config"]
"""Names that Python, IPython or pydantic read."""
WALKED = ("zoo",)
"""Folders whose public classes a registry finds."""
_WORD = re.compile(r"[A-Za-z_]\w*")
_CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)


def unused_symbols(packages: Sequence[Path], users: Sequence[Path] = ()) -> tuple[str, ...]:
    """Symbols of package folders that nobody uses but tests, as "path:line kind name", sorted.

    A symbol is used if a package mentions its name elsewhere, also in a string or in a file of
    another language, such as a template; or if the code of `users` does.  Attributes of objects of
    libraries, which are only assigned, are not counted."""
    mentioned = {word for package in packages for word in _words_beside_names(package)}
    mentioned |= {word for path in users for word in _words_of_code(path)}
    found = Vulture(ignore_names=IGNORED_NAMES, ignore_decorators=DECORATORS)
    found.scavenge([str(package) for package in packages])
    return tuple(
        sorted(
            f"{_relative(item.filename, packages)}:{item.first_lineno} {item.typ} {item.name}"
            for item in found.get_unused_code()
            if item.typ != "attribute"
            and item.name not in mentioned
            and not (item.typ == "class" and Path(item.filename).parent.name in WALKED)
        )
    )


def _words_beside_names(package: Path) -> Iterator[str]:
    """Identifiers in a package's strings, docstrings excepted, and in its other files."""
    for path in package.rglob("*.*"):
        if path.suffix in (".j2", ".js", ".html", ".toml"):
            yield from _WORD.findall(path.read_text("utf-8"))
        elif path.suffix == ".py":
            nodes = tuple(ast.walk(ast.parse(path.read_text("utf-8"))))
            statements = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
            for node in nodes:
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield from () if id(node) in statements else _WORD.findall(node.value)


def _words_of_code(path: Path) -> Collection[str]:
    """Identifiers in a file, of a document in its code."""
    text = path.read_text("utf-8")
    return _WORD.findall(" ".join(_CODE.findall(text)) if path.suffix == ".md" else text)


def _relative(path: Path | str, packages: Sequence[Path]) -> str:
    file = Path(path).resolve()
    (home,) = (p.resolve().parent for p in packages if file.is_relative_to(p.resolve()))
    return file.relative_to(home).as_posix()


@dataclass(frozen=True, slots=True)
class Measure:
    """A count, and the places that it counts.  `name`: its name in the file of records."""

    name: str
    title: str
    places: tuple[str, ...]

    @property
    def count(self) -> int:
        return len(self.places)


Records = Mapping[str, int]


def measures(packages: Sequence[Path] = PACKAGES, users: Sequence[Path] = ()) -> Sequence[Measure]:
    """Every measure of package folders."""
    source = read_source(packages)
    cycles = tuple(module for cycle in import_cycles(source) for module in cycle)
    many = tuple(long_signatures(source))
    return (
        Measure("import_cycles", "modules in import cycles, TYPE_CHECKING included", cycles),
        Measure("long_signatures", f"functions with more than {MAX_ARGUMENTS} parameters", many),
        Measure("any", "uses of Any", tuple(uses_of_any(source))),
        Measure("unused", "symbols that only tests or nobody use", unused_symbols(packages, users)),
    )


def callers() -> Sequence[Path]:
    """The files of the repository whose code calls the packages from outside."""
    found = (path for pattern in USERS for path in REPOSITORY.glob(pattern))
    return [path for path in found if path.suffix in (".md", ".py", ".toml")]


def read_records(path: Path = RECORDS) -> Records:
    """The recorded counts by name."""
    return json.loads(path.read_text("utf-8"))


def growth(found: Sequence[Measure], records: Records) -> str:
    """The measures above their records, with their places; empty if there is none."""
    above = (m for m in found if m.count > records.get(m.name, 0))
    return "\n".join(f"{m.title}: {m.count}\n    " + "\n    ".join(m.places) for m in above)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.structure", description=__doc__)
    parser.add_argument("--details", metavar="MEASURE", help="print the places of this measure")
    parser.add_argument("--lower", action="store_true", help="record counts that fell")
    wanted = parser.parse_args(arguments)
    found, records = measures(users=callers()), read_records()
    for m in found:
        print(f"{m.title:50}  {m.count:6,}  record {records.get(m.name, 0):6,}")
        if wanted.details in (m.name, "all"):
            print("\n".join(f"    {place}" for place in m.places))
    if wanted.lower:
        lowered = {m.name: min(m.count, records.get(m.name, m.count)) for m in found}
        RECORDS.write_text(json.dumps(lowered, indent=2) + "\n", "utf-8")
    if too_many := growth(found, records):
        print(f"above the records:\n{too_many}")
    return int(bool(too_many))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
