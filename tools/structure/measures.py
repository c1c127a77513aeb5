"""Measures: the table of what is counted in the source tree."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tools.ratchets import Measure, measure
from tools.structure import concepts, definitions
from tools.structure.definitions import MAX_ARGUMENTS
from tools.structure.imports import import_cycles
from tools.structure.source import Source, read_source, together

SOURCE_FOLDER = Path(__file__).resolve().parents[2] / "src"
PACKAGE = "penstock"
ACCELERATORS = tuple(
    path.parent for path in sorted(SOURCE_FOLDER.parent.glob("accelerators/*/src/*/__init__.py"))
)
"""The folders of the packages of accelerators, which use what the core exports for them."""
HAS_VULTURE = importlib.util.find_spec("vulture") is not None


def measures(
    folder: Path = SOURCE_FOLDER, package: str = PACKAGE, beside: Sequence[Path] = ACCELERATORS
) -> Iterator[Measure]:
    """Every measure of a package and of those beside it, which are stated by their folders; unused
    symbols only where vulture is installed."""
    others = (read_source(path.parent, path.name) for path in beside)
    source = together(read_source(folder, package), *others)
    for name, title, count in MEASURES:
        yield measure(name, title, tuple(count(source, package)))
    if HAS_VULTURE:
        yield unused(folder / package, *beside)


def broken_contracts(repository: Path = SOURCE_FOLDER.parent) -> Measure:
    """Import contracts of `pyproject.toml` that the package breaks, according to lint-imports."""
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()"]
    done = subprocess.run(
        [*command, "--no-cache"],
        cwd=repository,
        env={**os.environ, "PYTHONPATH": str(repository / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    broken = tuple(line for line in done.stdout.splitlines() if line.endswith(" BROKEN"))
    if done.returncode and not broken:
        broken = ("lint-imports failed: " + (done.stderr or done.stdout).strip(),)
    return measure("broken_contracts", "broken import contracts", broken)


def unused(*packages: Path) -> Measure:
    """Symbols that the packages, stated by their folders, never use themselves."""
    from tools.structure.unused import read_reviewed, unused_symbols

    places = unused_symbols(packages, read_reviewed())
    return measure("unused_symbols", "symbols that only tests or nobody use", places)


def _cycles(source: Source, package: str) -> Iterator[str]:
    return (module for cycle in import_cycles(source) for module in cycle)


def _long_signatures(source: Source, package: str) -> Iterator[str]:
    return definitions.long_signatures(source)


def _any(source: Source, package: str) -> Iterator[str]:
    return definitions.uses_of_any(source)


MEASURES: tuple[tuple[str, str, Callable[[Source, str], Iterator[str]]], ...] = (
    ("import_cycles", "modules in import cycles, TYPE_CHECKING included", _cycles),
    ("long_signatures", f"functions with more than {MAX_ARGUMENTS} parameters", _long_signatures),
    ("any", "uses of Any", _any),
    ("operator_helpers", "modules of ops/ without an operator", concepts.operator_helpers),
    (
        "domination_elsewhere",
        "domination outside pareto.py",
        concepts.domination_elsewhere,
    ),
    (
        "prefetch_elsewhere",
        "prefetching outside scheduling/prefetch/",
        concepts.prefetch_elsewhere,
    ),
)
"""Name in the ratchet file, title, and the places that are counted."""
