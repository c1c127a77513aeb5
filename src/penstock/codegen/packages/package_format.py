"""PackageFormat: the folder layout that a build system expects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.codegen.bundle import Bundle
from penstock.codegen.packages.delivery import Delivery


@dataclass(frozen=True, slots=True)
class PackageFormat:
    """A format of `--package`.

    name: its name on the command line.
    pack: returns the files of the package.
    """

    name: str
    pack: Callable[[Delivery], Bundle]
