"""CallTraffic: the work and memory traffic of one kernel call."""

from __future__ import annotations

from collections.abc import Iterable
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
    (traffic,) = traffic_of_calls(part, (out,))
    return traffic


def traffic_of_calls(part: Part, outs: Iterable[Region]) -> list[CallTraffic]:
    """Return the work and traffic of calls of `part`, one for each output region in `outs`."""
    element = part.output.type.dtype.size_bytes
    if not part.nodes:
        return [CallTraffic(0, (), 0, out.elements * element) for out in outs]
    op, site, recurrent = part.nodes[-1].op, part.nodes[-1].site, part.kernel.recurrent
    sizes = [type.dtype.size_bytes for type in site.inputs]
    return [
        CallTraffic(
            op.work(site, out).macs,
            tuple(n.elements * size for n, size in zip(op.needs(site, out), sizes, strict=True)),
            row_before(out).elements * element if recurrent else 0,
            out.elements * element,
        )
        for out in outs
    ]
