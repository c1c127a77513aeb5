"""Drawn names: adversarial tensor names.

They look like names that the compiler derives, or have a meaning in C, in a terminal or in a path.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

SUFFIXES = (
    "/packed", "/image", "/padded", "/whole", "/row", "/running", "/before_reshape",
    "/scratch", "/prefetched", "/no_bias", "/operand0", "/operand1", "/input0", "/flat",
    "/axes0231", "/as_image", "/rank4", "/real", "/real0", "/constant1", "/weights",
    "/bias", "#1", "#2", "[0:1]", "[0:2]", "[a:b]", ": constants", ": commands 0", ": table", ";",
    ":0", "/sram", "/flash",
)  # fmt: skip
"""Suffixes by which the compiler derives one name from another."""

WORDS = (
    "", "int", "while", "main", "arena", "scratch", "input", "output", "x", "y", "*/", "/*", '"',
    "\\", "??/", "a\nb", "\x1b[31m", "é漢字🙂", "\u202e", "//", "%s", "{0}", "<b>", "$(id)", "../x",
    "../..", " ", "y" * 3000,
)  # fmt: skip


def drawn_name(known: Sequence[str], random: Random) -> str:
    """A word or a known name, with up to two suffixes."""
    stem = random.choice((random.choice(WORDS), random.choice(known)))
    return stem + "".join(random.choices(SUFFIXES, k=random.randrange(3)))
