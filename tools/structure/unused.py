"""Unused: symbols of the product that only tests, benchmarks or nobody use.

vulture reports names that a package defines and never mentions again.  Names that the package's
templates mention are used; names in `reviewed.toml` are used in a way that the source does not
show, each with its reason.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from vulture.core import Vulture

REVIEWED = Path(__file__).with_name("reviewed.toml")
DECORATORS = ["@*.command", "@*.callback", "@*_validator", "@*_serializer"]
"""Decorators that register a function with a framework, which calls it."""
IGNORED_NAMES = ["__*__", "_repr_*_", "_ipython_*", "model_config"]
"""Names that Python, IPython or pydantic read."""


def unused_symbols(packages: Sequence[Path], reviewed: Collection[str]) -> tuple[str, ...]:
    """Symbols of package folders that none of them uses, as "path:line kind name", sorted.

    `reviewed`: names that are used although vulture cannot see it."""
    mentioned = {word for package in packages for word in _template_words(package)}
    found = Vulture(ignore_names=IGNORED_NAMES, ignore_decorators=DECORATORS)
    found.scavenge([str(package) for package in packages])
    lines = (
        f"{_relative(item.filename, packages)}:{item.first_lineno} {item.typ} {item.name}"
        for item in found.get_unused_code()
        if item.name not in mentioned and item.name not in reviewed
    )
    return tuple(sorted(lines))


def read_reviewed(path: Path = REVIEWED) -> Mapping[str, str]:
    """Reviewed names, each with the reason why it is used."""
    groups = tomllib.loads(path.read_text("utf-8"))["group"]
    return {name: group["reason"] for group in groups for name in group["names"]}


def _template_words(package: Path) -> frozenset[str]:
    """Every identifier in the package's Jinja templates."""
    texts = (path.read_text("utf-8") for path in package.rglob("*.j2"))
    return frozenset(word for text in texts for word in re.findall(r"[A-Za-z_]\w*", text))


def _relative(path: Path | str, packages: Sequence[Path]) -> str:
    file = Path(path).resolve()
    (home,) = (p.resolve().parent for p in packages if file.is_relative_to(p.resolve()))
    return file.relative_to(home).as_posix()


def stale_entries(packages: Sequence[Path], reviewed: Mapping[str, str]) -> Iterator[str]:
    """Reviewed names that vulture no longer reports; they can be removed from the list."""
    reported = {line.rpartition(" ")[2] for line in unused_symbols(packages, ())}
    return (name for name in reviewed if name not in reported)
