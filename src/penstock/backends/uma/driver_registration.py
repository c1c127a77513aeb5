"""DriverRegistration: registers the functions of an accelerator's driver that select an instance
and wait for queued calls."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod

from penstock.backends.uma import checks
from penstock.backends.uma.registrations import Registrations
from penstock.program.program import Driver


class DriverRegistration(ABC):
    """Base class of `Registration` with the methods that register functions of the driver.

    The compiler inserts the calls of these functions; no kernel issues them."""

    @functools.cached_property
    def _registered(self) -> Registrations:
        return Registrations()

    @property
    @abstractmethod
    def _place(self) -> str:
        """The names of the accelerator and its class, which errors report as their location."""

    def _register_instances(self, select: Driver) -> None:
        """Register the driver function `select`, which takes the number of an instance.

        If the target file lists several instances of the accelerator, each kernel call begins with
        this function; successive layers use the instances in turn.  UMA has no instances.

        Raises BackendError if `select` is not a Driver."""
        takes = "the state of the device and the number of an instance"
        checks.check_driver(select, "selects an instance", "npu_select", takes, self._place)
        self._registered.select = select

    def _register_wait(self, wait: Driver) -> None:
        """Register the driver function `wait`, which has no arguments.

        With this registration, the driver function that receives a command stream may return
        before the accelerator has executed the stream; the accelerator must execute streams in
        order.  After streams have been submitted, the program calls `wait` before the next command
        of another engine, and at the end of a run.

        Raises BackendError if `wait` is not a Driver."""
        takes = "the state of the device"
        checks.check_driver(wait, "waits for streams", "npu_wait", takes, self._place)
        self._registered.wait = wait
