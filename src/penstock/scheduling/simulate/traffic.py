"""Peak memory, and run time beyond pure computation, of a cascade in several memory regions."""

from __future__ import annotations

from penstock.scheduling.simulate.row_kernels import run_with_traffic
from penstock.scheduling.simulate.row_tables import Numbers, RowTables


def peaks_and_time(
    tables: RowTables,
    lower: int,
    upper: int,
    calls: Numbers,
    region: Numbers,
    extra: Numbers,
    constants: Numbers,
    access_times: Numbers,
    capacities: Numbers,
) -> tuple[Numbers, int] | None:
    """Return the live bytes at the peak of each memory region, and the added time of a cascade.

    The added time is the run time minus the computing time with all operands in the default region.
    It may be negative, because an engine may compute faster with operands in other regions.  The
    added time consists of the overhead of the calls, the times in `constants`, and the time for
    accesses to tensors other than constants.  Times are in units of 1/1024 cycle.

    lower, upper: the cascade consists of the parts at positions [lower, upper).
    calls[i]: (position of the part, first row, end row, position of the part that requested the
        rows) of call i.
    region[s]: index of the memory region of storage s.
    extra[m]: bytes that are live in region m during the whole cascade.
    constants: array of shape (2, upper - lower).  The first call of the part at position p adds the
        time constants[0, p - lower]; each later one adds constants[1, p - lower].  These times
        cover reading the part's constants, and the change of its computing time (possibly
        negative) if operands are outside the default region.
    access_times[m]: (time per access, time per byte) in region m.
    capacities[m]: bytes available in region m.

    Returns None if a peak exceeds its capacity.
    """
    peaks, time, fits = run_with_traffic(
        tables, lower, upper, calls, region, extra, constants, access_times, capacities
    )
    return (peaks, int(time)) if fits else None
