"""CallTraffic: the work and memory traffic of one kernel call."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.ir.op import row_before
from penstock.ir.region import Region
from penstock.scheduling.model.part import Part


@dataclass(frozen=True, slots=True)
class CallTraffic:
    """Work and memory traffic of one kernel call.

    macs: multiply-accumulates, including those that the kernel skips.
    read_bytes: bytes read from each input, constants included.
    previous_row_bytes: bytes read from the output row before the call's rows, if the kernel
        computes each row from the previous one; 0 for other kernels.
    written_bytes: bytes written to the output.
    """

    macs: int
    read_bytes: tuple[int, ...]
    previous_row_bytes: int
    written_bytes: int


def traffic_of_call(part: Part, out: Region) -> CallTraffic:
    """Return the work and traffic of a call of `part` that computes a region of the output."""
    pairs = zip(part.needs(out), part.inputs, strict=True)
    read = tuple(need.elements * value.type.dtype.size_bytes for need, value in pairs)
    element = part.output.type.dtype.size_bytes
    before = row_before(out).elements * element if part.kernel.recurrent else 0
    return CallTraffic(part.macs(out), read, before, out.elements * element)
