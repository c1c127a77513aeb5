"""Timeline of a copy engine: the cycles that row copies add to a cascade.

The engine executes copies in the order in which they are started, one at a time, while the
processor computes.  To start the copy of a row, the processor needs the setup time of the engine.
The processor stalls when it waits for a copy that is not complete.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from penstock.scheduling.simulate.row_tables import Numbers

CallTime = Callable[[int, int, int], int]
"""Function (position, first, end) -> time of the call for output rows [first, end) of a part."""


@dataclass(frozen=True, slots=True)
class TimedCopy:
    """Timing of a row copy, which is a part of the cascade.

    row_time: time of copying a row.
    reader: for a copy in with double buffering, the position of the part that reads the copy;
        otherwise None.
    rows_copied_out: for a copy out, the number of rows of the tensor; otherwise None.

    There are three kinds of row copies:

    - Copy in with double buffering: before each call of the reader, the processor waits until the
      rows for this call are copied, and starts to copy the rows for the reader's next call.
    - Copy in without double buffering: when rows are requested, the processor starts to copy them
      and waits until they are copied.
    - Copy out: after each call of the writer, the processor waits until the rows of the previous
      call are copied, and starts to copy the rows of this call.  After the last call, it also waits
      for the rows of this call.
    """

    row_time: int
    reader: int | None = None
    rows_copied_out: int | None = None


def copy_times(
    calls: Numbers,
    copies: Mapping[int, TimedCopy],
    call_time: CallTime,
    setup_time: int,
    busy_time: int,
) -> Mapping[int, int]:
    """Return the time (setup and stalls) that each row copy adds to a cascade.

    Keys of the result: positions of the parts that perform the copies.
    calls[i]: (position of the part, first row, end row, position of the part that requested the
        rows) of call i of the cascade.
    copies: the row copies, by position of the part.  Copies with the same reader start in the order
        in which they are listed.
    call_time: function (position, first, end) that returns the time of the call for output rows
        [first, end) of the part at this position.
    setup_time: time that the processor needs to start the copy of one row.
    busy_time: time that the copy engine still needs for other copies when the cascade begins.

    All times have the same unit.
    """
    run = _Run(copies, setup_time, busy_time)
    by_reader: dict[int, list[int]] = {}
    for p, copy in copies.items():
        if copy.reader is not None:
            by_reader.setdefault(copy.reader, []).append(p)
    requested: dict[int, int] = {}
    for position, first, end, requester in calls.tolist():
        copy = copies.get(position)
        if copy is None:
            for p in by_reader.get(position, ()):
                run.wait(p)
                run.start(p, requested.pop(p, 0))
            run.now += call_time(position, first, end)
        elif copy.rows_copied_out is not None:
            run.wait(position)
            run.start(position, end - first)
            if end == copy.rows_copied_out:
                run.wait(position)
        elif copy.reader is None:
            run.start(position, end - first)
            run.wait(position)
        elif requester == position:
            run.start(position, end - first)
        else:
            requested[position] = end - first
    return run.added


@dataclass(slots=True)
class _Run:
    """The state of the processor and the copy engine.

    copies, setup_time: arguments of `copy_times`.
    free: time at which the engine will have executed all copies that the processor has started.
    now: the time that the processor has reached.

    Two fields have an entry for each row copy; keys are the positions, in the execution order, of
    the parts that perform the row copies.
    complete: time at which the engine will have copied the rows that the processor has started to
        copy.
    added: the setup time and stalls so far.
    """

    copies: Mapping[int, TimedCopy]
    setup_time: int
    free: int
    now: int = 0
    complete: dict[int, int] = field(default_factory=dict[int, int])
    added: dict[int, int] = field(default_factory=dict[int, int])

    def start(self, p: int, rows: int) -> None:
        """Let the processor start to copy `rows` rows, one by one.

        p: position, in the execution order, of the part that performs the row copy.
        """
        for _ in range(rows):
            self.now += self.setup_time
            self.free = max(self.free, self.now) + self.copies[p].row_time
            self.complete[p] = self.free
        self.added[p] = self.added.get(p, 0) + rows * self.setup_time

    def wait(self, p: int) -> None:
        """Let the processor wait until the engine has copied all rows whose copy `start` has begun.

        p: position of the part that performs the row copy; only its rows are awaited.
        """
        stall = max(0, self.complete.get(p, 0) - self.now)
        self.now += stall
        self.added[p] = self.added.get(p, 0) + stall
