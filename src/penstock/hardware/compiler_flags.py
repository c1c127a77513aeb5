"""The compiler flags that a target file may state without being trusted: a closed vocabulary.

A compiler flag can run a program (`-fplugin=`, `-wrapper`, `-B`), read a file (`@FILE`, `-include`,
`-specs=`) or overwrite one (`-o`, `-MF`, `-dumpdir`), and a macro (`-D`) can change what the
generated C computes.  The flags below select a processor, an ABI and how code is generated; they do
none of it.

Source: GCC 14 manual, "Invoking GCC", sections "ARM Options", "RISC-V Options", "Options That
Control Optimization" and "Options for Code Generation Conventions".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

# Flags whose value is the name of a processor, an architecture, an ABI or a model of addresses.
_WITH_NAME = (
    "-march", "-mcpu", "-mtune", "-mfpu", "-mabi", "-mcmodel", "-mfloat-abi", "-mbranch-protection",
)  # fmt: skip
_ALONE = (
    "-mthumb", "-marm", "-mlittle-endian", "-mcmse", "-mpure-code", "-mslow-flash-data",
    *("-munaligned-access", "-mno-unaligned-access", "-mrestrict-it", "-mno-restrict-it"),
    *("-mlong-calls", "-mno-long-calls", "-mrelax", "-mno-relax", "-mstrict-align"),
    *("-O0", "-O1", "-O2", "-O3", "-Os", "-Oz", "-Og", "-g", "-g0", "-g1", "-g2", "-g3"),
)  # fmt: skip
# Names of flags `-fNAME` and `-fno-NAME`.
_CODE_GENERATION = (
    "omit-frame-pointer", "function-sections", "data-sections", "common", "strict-aliasing",
    *("unwind-tables", "asynchronous-unwind-tables", "exceptions", "stack-protector"),
    *("inline-functions", "unroll-loops", "tree-vectorize", "jump-tables", "builtin", "wrapv"),
)  # fmt: skip
_TARGET_OF_CLANG = "-target"  # The next flag of the list is its value.
_NAME = r"[A-Za-z0-9][A-Za-z0-9_.+-]*"
_FLAG = re.compile(
    f"(?:{'|'.join(map(re.escape, _WITH_NAME))})={_NAME}"
    f"|{'|'.join(map(re.escape, _ALONE))}"
    f"|-f(?:no-)?(?:{'|'.join(map(re.escape, _CODE_GENERATION))})"
)

# What flags are allowed, as error messages state it.
VOCABULARY = (
    f"a flag of the vocabulary that every target file may use: {', '.join(_WITH_NAME)} with a "
    "name, such as -mcpu=cortex-m4; -mthumb, -O2, -ffunction-sections and the like"
)


def first_outside(flags: Sequence[str]) -> int | None:
    """The index of the first flag that is not in the vocabulary; None if all are.

    >>> first_outside(("-mthumb", "-mcpu=cortex-m4", "-fplugin=a.so"))
    2
    >>> first_outside(("-target", "thumb-freestanding-eabi", "-mcpu=cortex_m33+dsp"))
    """
    is_value = False
    for index, flag in enumerate(flags):
        if is_value:
            is_known = re.fullmatch(_NAME, flag) is not None
        else:
            is_known = flag == _TARGET_OF_CLANG or _FLAG.fullmatch(flag) is not None
        if not is_known:
            return index
        is_value = not is_value and flag == _TARGET_OF_CLANG
    return len(flags) - 1 if is_value else None
