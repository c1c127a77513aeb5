"""calling: how a function on a simulated core is called, and what it must leave as it was.

Source: Procedure Call Standard for the Arm Architecture (AAPCS).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from penstock.errors import InternalError
from penstock.simulators.counts import Counts

REGISTER_ARGUMENTS = 4  # AAPCS 6.4: r0 to r3, then the stack
PRESERVED = tuple(f"R{number}" for number in range(4, 12))  # AAPCS 6.1.1
PRESERVED_MARK = 0x5EED_0000  # plus the register's place


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one call gave and cost.

    `return_value` is r0 as a signed number. `stack_bytes` is the highest stack use, from the stack
    pointer at the call downwards. `phases` are in the order asked for; `before` is what was run
    before the first of them began. `before` and `phases` sum up to `counts`.
    """

    return_value: int
    counts: Counts
    stack_bytes: int
    before: Counts
    phases: tuple[Counts, ...]

    @property
    def address(self) -> int:
        """The return value, where it is a pointer."""
        return self.return_value & 0xFFFF_FFFF


class Core(Protocol):
    """Registers and memory of a simulated core."""

    def read(self, address: int, size_bytes: int) -> bytes: ...
    def write(self, address: int, content: bytes) -> None: ...
    def register(self, name: str) -> int: ...
    def set_register(self, name: str, value: int) -> None: ...


def prepare(core: Core, arguments: Sequence[int], stack_top: int) -> int:
    """Sets registers, writes arguments beyond the fourth; returns the stack pointer."""
    on_stack = arguments[REGISTER_ARGUMENTS:]
    sp = stack_top - -(-4 * len(on_stack) // 8) * 8
    core.write(sp, b"".join(_word(value) for value in on_stack))
    core.set_register("SP", sp)
    for number, value in enumerate(arguments[:REGISTER_ARGUMENTS]):
        core.set_register(f"R{number}", value)
    for place, name in enumerate(PRESERVED):
        core.set_register(name, PRESERVED_MARK + place)
    return sp


def paint_stack(core: Core, lower: int, sp: int) -> npt.NDArray[np.uint32]:
    """Fills the stack [lower, sp) with words that no program writes by chance; returns them."""
    words = (sp - lower) // 4
    paint = np.random.default_rng(words).integers(0, 1 << 32, words, np.uint32)
    core.write(lower, paint.tobytes())
    return paint


def lowest_changed(core: Core, lower: int, paint: npt.NDArray[np.uint32]) -> int:
    """The address of the lowest word of the stack that is not as it was painted."""
    now = np.frombuffer(core.read(lower, paint.nbytes), np.uint32)
    changed = np.flatnonzero(now != paint)
    words = int(changed[0]) if changed.size else len(paint)
    return lower + 4 * words


def check_preserved(core: Core, name: str, sp: int) -> None:
    """Raises InternalError where a function came back with registers of its caller changed."""
    expected = {register: PRESERVED_MARK + place for place, register in enumerate(PRESERVED)}
    changed = [r for r, v in {**expected, "SP": sp}.items() if core.register(r) != v]
    if changed:
        raise InternalError(
            "simulator-008",
            f"'{name}' came back with {', '.join(changed).lower()} changed",
            why="r4 to r11 and sp belong to the caller (AAPCS 6.1.1); look at inline assembly",
        )


def returned_value(core: Core) -> int:
    """r0 as a signed number."""
    word = core.register("R0")
    return word - (1 << 32) if word >> 31 else word


def _word(value: int) -> bytes:
    return (value & 0xFFFF_FFFF).to_bytes(4, "little")
