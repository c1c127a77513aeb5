"""Bank groups: buffers that are live at the same time and share no bank of a memory.

A bank has a single port, so an engine cannot read and write it at the same time.  A bank group is
the banks that hold one buffer at a time: if each buffer begins at a bank and occupies whole banks,
buffers that are live at the same time are in different bank groups.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.memory.problem import PlacementProblem


def in_whole_banks(problem: PlacementProblem, bank_bytes: int) -> PlacementProblem:
    """Return the placement problem in which each buffer occupies whole banks.

    bank_bytes: the size of a bank.

    Tied buffers remain as they are; they are at fixed distances from another buffer.
    """
    return PlacementProblem(
        tuple(
            buffer
            if buffer.tied
            else replace(
                buffer,
                size_bytes=whole_banks(buffer.size_bytes, bank_bytes),
                alignment=bank_bytes,
            )
            for buffer in problem.buffers
        )
    )


def whole_banks(size_bytes: int, bank_bytes: int) -> int:
    """Return a size rounded up to whole banks; unchanged if `bank_bytes` is 0.

    >>> whole_banks(5000, 4096), whole_banks(5000, 0)
    (8192, 5000)
    """
    return -(-size_bytes // bank_bytes) * bank_bytes if bank_bytes else size_bytes
