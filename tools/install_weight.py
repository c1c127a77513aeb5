"""The size of the installation, dependency by dependency.

python -m tools.install_weight [EXTRA ...]

For each requirement of penstock, and of the extras that are named, prints the bytes of the package
itself, of the packages that it brings, and of those that would not be installed without it. The
sizes are those of the files in the present environment, compiled Python files included.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from rich.console import Console
from rich.table import Table

PACKAGE = "penstock"


def main(arguments: Sequence[str]) -> int:
    """Print the table; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.install_weight",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("extras", nargs="*", metavar="EXTRA", help="extras of penstock")
    extras: list[str] = parser.parse_args(arguments).extras
    direct = requirements(PACKAGE, extras)
    every = closure(direct)
    table = Table(title=f"installation of {PACKAGE}{extras or ''}: {megabytes(_sum(every))}")
    table.add_column("requirement", no_wrap=True)
    for heading in ("itself", "with what it brings", "saved without it"):
        table.add_column(heading, justify="right")
    for name in sorted(direct, key=lambda name: -_saved(name, direct)):
        figures = (size_bytes(name), _sum(closure([name])), _saved(name, direct))
        table.add_row(name, *map(megabytes, figures))
    Console().print(table)
    return 0


def megabytes(count: int) -> str:
    """Return a number of bytes in units of a million bytes."""
    return f"{count / 1e6:,.1f} MB"


def folder_bytes(folder: Path) -> int:
    """Return the bytes of all files in a folder and its subfolders."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


@cache
def size_bytes(package: str) -> int:
    """Return the bytes of the files of an installed package; 0 if it is not installed."""
    try:
        files = distribution(package).files or []
    except PackageNotFoundError:
        return 0
    return sum(path.stat().st_size for file in files if (path := Path(str(file.locate()))).exists())


def requirements(package: str, extras: Collection[str] = ()) -> tuple[str, ...]:
    """Return the normalised names of the packages that an installed package requires."""
    try:
        lines = distribution(package).requires or []
    except PackageNotFoundError:
        return ()
    found = (Requirement(line) for line in lines)
    wanted = (
        one.name
        for one in found
        if one.marker is None or any(one.marker.evaluate({"extra": e}) for e in ("", *extras))
    )
    return tuple(dict.fromkeys(re.sub(r"[-_.]+", "-", name).lower() for name in wanted))


def closure(packages: Iterable[str]) -> frozenset[str]:
    """Return packages with everything that they require."""
    found: set[str] = set()
    waiting = list(packages)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += requirements(name)
    return frozenset(found)


def _sum(packages: Iterable[str]) -> int:
    return sum(map(size_bytes, packages))


def _saved(package: str, direct: Sequence[str]) -> int:
    """Return the bytes of the packages that only one of the direct requirements needs."""
    rest = closure(name for name in direct if name != package)
    return _sum(closure(direct) - rest)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
