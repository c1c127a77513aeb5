"""Names of tensors that look like names the compiler derives, or that C or a terminal interpret."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

SUFFIXES = (
    "/packed", "/image", "/padded", "/whole", "/row", "/running", "/before_reshape", "/scratch",
    "/fetched", "/no_bias", "/operand0", "/operand1", "/input0", "/flat", "/axes0231", "/as_image",
    "/rank4", "/real", "/real0", "/constant1", "/weights", "/bias", "#1", "#2", "[0:1]", "[0:2]",
    ": constants", ": commands 0", ";", ":0", "/sram", "/flash",
)  # fmt: skip
"""What stands behind a tensor's name in the name of something derived from it."""

WORDS = (
    "", "int", "main", "arena", "scratch", "input", "output", "x", "y", "*/", "/*", '"', "\\",
    "??/", "a\nb", "\x1b[31m", "é漢字🙂", "\u202e", "//", "%s", "{0}", "<b>", "$(id)", "../x", " ",
    "y" * 3000,
)  # fmt: skip


def drawn_name(known: Sequence[str], random: Random) -> str:
    """A word, a known name, or either with one or two suffixes."""
    stem = random.choice((random.choice(WORDS), random.choice(known)))
    return stem + "".join(random.choices(SUFFIXES, k=random.randrange(3)))
