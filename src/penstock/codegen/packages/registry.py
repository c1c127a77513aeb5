"""Registry of package formats, which are discovered in this folder.

A module of this folder that defines `FORMAT` is a format's file.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module

from penstock.backends.cores.family import core_family
from penstock.codegen import packages as folder
from penstock.codegen.bundle import Bundle
from penstock.codegen.packages.delivery import Delivery, PackageFormat
from penstock.errors import UsageError, did_you_mean
from penstock.guides import guide
from penstock.hardware.target import Target

ALL = "all"  # Stands for every format.


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


# Notices about packages whose chips do not run the kernels of the target.


# A target whose kernels are plain C, with enough memory for any model.
PORTABLE_TARGET = "cortex-m4-portable"


def notices(
    formats: Sequence[PackageFormat], target: Target, *, is_board: bool
) -> Iterator[tuple[str, str, str]]:
    """Yield what, why and help for each format whose chips have cores other than the target's.

    is_board: the target is a board, which settles the core where a format serves several."""
    if target.core is None:
        return
    is_plain_c = all(core_family(engine.kernels).is_plain_c for engine in target.engines)
    for format in formats:
        if is_plain_c:
            if not format.serves_arm:
                yield (
                    f"the {format.name} package runs on other cores than {target.core}",
                    f"{format.other_cores}; cycles and times of the report are those of "
                    f"{target.core}",
                    "measure the time on the chip; RAM and constants are as reported",
                )
        elif format.other_cores and not (format.serves_arm and is_board):
            yield (
                f"the {format.name} package contains kernels for {target.core}, but "
                f"{format.other_cores}",
                "other cores run equivalent C instead: the same results, but other cycles than in "
                "the report",
                f"for such a chip, use --target {PORTABLE_TARGET}",
            )
