"""Registry of package formats, which are discovered in this folder.

A module of this folder that defines `FORMAT` is a format's file.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module

from penstock.codegen import packages as folder
from penstock.codegen.bundle import Bundle
from penstock.codegen.packages.delivery import Delivery
from penstock.codegen.packages.package_format import PackageFormat
from penstock.errors import UsageError, did_you_mean
from penstock.guides import guide

DEFAULT_PACKAGES = ("cmake",)
ALL = "all"
"""Stands for every format."""


@cache
def package_formats() -> Mapping[str, PackageFormat]:
    """The formats by name, in alphabetical order."""
    names = (f"{folder.__name__}.{info.name}" for info in pkgutil.iter_modules(folder.__path__))
    modules = (import_module(name) for name in names)
    found = [module.FORMAT for module in modules if hasattr(module, "FORMAT")]
    return {format.name: format for format in sorted(found, key=lambda format: format.name)}


def chosen_formats(texts: str | Sequence[str]) -> tuple[PackageFormat, ...]:
    """The formats that texts such as "zephyr,arduino" and "all" name, each once.

    Raises UsageError for an unknown name."""
    known = package_formats()
    every = (texts,) if isinstance(texts, str) else texts
    names = [name.strip() for text in every for name in text.split(",")]
    for name in names:
        if name not in known and name != ALL:
            raise _unknown(name)
    if ALL in names:
        return tuple(known.values())
    return tuple(known[name] for name in dict.fromkeys(names))


def packaged(delivery: Delivery, formats: Sequence[PackageFormat]) -> Bundle:
    """The files of one package, or of several packages, each in a folder named after its format."""
    if len(formats) == 1:
        return formats[0].pack(delivery)
    return Bundle(
        tuple(
            (f"{format.name}/{name}", content)
            for format in formats
            for name, content in format.pack(delivery).files
        )
    )


def _unknown(name: str) -> UsageError:
    known = (*package_formats(), ALL)
    page = f"the formats are described in the {guide('add-to-a-firmware-project')}"
    return UsageError(
        "usage-060",
        f"there is no package format {name!r}" if name else "no package format is named",
        where="--package",
        why=f"the formats are {', '.join(known)}",
        help=did_you_mean(name.lower().replace("_", "-"), known) + page,
    )
