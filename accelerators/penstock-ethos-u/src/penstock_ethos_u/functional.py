"""functional: executes the streams that the functional driver of a bundle receives.

    python -m penstock_ethos_u.functional

The driver (`ethosu_functional.c`) has the interface of Arm's. On a POSIX system it starts this
module as a process and passes jobs through a socket, which is the process's standard input. On a
simulated processor, the simulator calls `trap`. Both execute the delivered stream in the
interpreter, with the regions that the bundle's C passes, in place of the hardware. Errors are an
access outside a region, a write to region 0, an address that is not aligned and a missing wait.

Environment variable PENSTOCK_ETHOS_U_FAIL: the number of a submission, from 1 on, that fails.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count

import numpy as np

from penstock.uma import Array, BackendError, CoreAccess, PenstockError
from penstock_ethos_u.interpreter import driver_payload, execute
from penstock_ethos_u.vela import payload_configuration

FAIL = "PENSTOCK_ETHOS_U_FAIL"
REGIONS = 8
CONSTANTS = 0  # The number of the region that the NPU only reads.
JOB = struct.Struct(f"={2 + 2 * REGIONS}Q")  # `struct ethosu_functional_job`
STATUS = struct.Struct("=i")
SUCCESS, FAILURE = 0, -1


@dataclass(frozen=True, slots=True)
class Job:
    """A stream to execute: its address and size, and those of the regions by number. A region that
    is not used has the size 0."""

    stream: int
    size_bytes: int
    bases: tuple[int, ...]
    sizes: tuple[int, ...]

    @staticmethod
    def of(raw: bytes) -> Job:
        """The job in the memory of a program."""
        stream, size_bytes, *regions = JOB.unpack(raw)
        return Job(stream, size_bytes, tuple(regions[:REGIONS]), tuple(regions[REGIONS:]))

    def addressed(self) -> Mapping[int, int]:
        """The address of each region that the stream may use, by number."""
        pairs = enumerate(zip(self.bases, self.sizes, strict=True))
        return {k: base for k, (base, size) in pairs if size}


class FunctionalNpu:
    """Executes streams in order, and fails at the submission that the environment states."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._failing = int(os.environ.get(FAIL) or 0)

    def run(self, payload: bytes, regions: Mapping[int, bytes]) -> Mapping[int, bytes]:
        """Return the contents of the regions after a payload, without the region of constants.

        Raises PenstockError if the payload is invalid, or if it does what the hardware cannot."""
        if next(self._numbers) == self._failing:
            raise BackendError(
                "ethosu-117",
                f"submission {self._failing} fails",
                where="functional model of Ethos-U",
                why=f"the environment variable {FAIL} states its number",
            )
        arrays: dict[int, Array] = {
            k: np.frombuffer(raw, np.uint8) if k == CONSTANTS else np.array(bytearray(raw))
            for k, raw in regions.items()
        }
        configuration = payload_configuration(payload)
        execute(driver_payload(payload), arrays, configuration, waited=True)
        return {k: array.tobytes() for k, array in arrays.items() if k != CONSTANTS}


def trap() -> Callable[[CoreAccess], None]:
    """Return a function that executes a job in place of `ethosu_functional_execute`, when a
    simulated processor calls it."""
    npu, constants = FunctionalNpu(), dict[tuple[int, int], bytes]()

    def executed(core: CoreAccess) -> None:
        job = Job.of(core.read(core.register("R0"), JOB.size))
        regions: dict[int, bytes] = {}
        for k, base in job.addressed().items():
            place = base, job.sizes[k]
            regions[k] = constants[place] if place in constants else core.read(*place)
            if k == CONSTANTS:
                constants[place] = regions[k]
        found = npu.run(core.read(job.stream, job.size_bytes), regions)
        for k, raw in found.items():
            for lower, upper in _changes(regions[k], raw):
                core.write(job.bases[k] + lower, raw[lower:upper])
        core.set_register("R0", SUCCESS)

    return executed


def _changes(old: bytes, new: bytes) -> list[tuple[int, int]]:
    """The interval of bytes outside of which two arrays are equal; none if they are equal."""
    changed = np.flatnonzero(np.frombuffer(old, np.uint8) != np.frombuffer(new, np.uint8))
    return [(int(changed[0]), int(changed[-1]) + 1)] if changed.size else []


def serve(connection: socket.socket) -> None:
    """Execute the jobs of a process until it ends."""
    npu, constants = FunctionalNpu(), b""
    with connection.makefile("rb") as stream:
        while raw := stream.read(JOB.size):
            job = Job.of(raw)
            payload = stream.read(job.size_bytes)
            regions: dict[int, bytes] = {}
            for k, base in job.addressed().items():
                is_known = k == CONSTANTS and base == 0
                regions[k] = constants if is_known else stream.read(job.sizes[k])
            constants = regions.get(CONSTANTS, constants)
            try:
                found = npu.run(payload, regions)
            except PenstockError as error:
                print(error, file=sys.stderr, flush=True)
                connection.sendall(STATUS.pack(FAILURE))
            else:
                connection.sendall(STATUS.pack(SUCCESS) + b"".join(found.values()))


if __name__ == "__main__":
    serve(socket.socket(fileno=sys.stdin.fileno()))
