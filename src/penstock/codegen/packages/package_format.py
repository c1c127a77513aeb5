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
    other_cores: a clause about its chips that have no Arm core; empty if that is not usual.
    serves_arm: whether it also serves chips with Arm cores.
    """

    name: str
    pack: Callable[[Delivery], Bundle]
    other_cores: str = ""
    serves_arm: bool = True
