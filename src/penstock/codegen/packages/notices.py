"""Notices about packages whose chips do not run the kernels of the target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.backends.cores.registry import core_family
from penstock.codegen.packages.package_format import PackageFormat
from penstock.hardware.target import Target

PORTABLE_TARGET = "cortex-m4-portable"
"""A target whose kernels are plain C, with enough memory for any model."""


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
