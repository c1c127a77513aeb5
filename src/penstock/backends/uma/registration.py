"""Registration: the methods by which the author of an accelerator describes it.

Source: TVM RFC 0060 (UMA), "UMABackend References".  The names of methods are those of the RFC.
penstock adds constraints, memories, rooflines and tilers.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.backends.accelerator import GraphPass, PassPhase, ProgramPass, Value
from penstock.backends.description import name_of
from penstock.backends.op_strategy import StrategyFunction
from penstock.backends.pattern import Pattern
from penstock.backends.roofline import Roofline
from penstock.backends.target_attributes import check_attribute
from penstock.backends.uma import checks
from penstock.backends.uma.files import read_sources
from penstock.backends.uma.memories import registered_memory
from penstock.backends.uma.registrations import (
    BandwidthOf,
    Judge,
    RegisteredCodegen,
    RegisteredStrategy,
    Registrations,
    SizeOf,
    Sources,
)
from penstock.hardware.target import MemoryRegion
from penstock.program.program import Driver
from penstock.tiling.tiler import Tiler

STRATEGY_LEVEL = 11
"""The default priority of strategies, one above that of the processor's kernels."""


class Registration(ABC):
    """The registering half of `UMABackend`."""

    @functools.cached_property
    def _registered(self) -> Registrations:
        return Registrations()

    @property
    @abstractmethod
    def target_name(self) -> str:
        """The accelerator's name for users: small letters, digits and underscores."""

    @property
    def attributes(self) -> Mapping[str, Value]:
        """The registered attributes with their defaults."""
        return dict(self._registered.attributes)

    def _register_target_attr(
        self,
        name: str,
        default: Value = "",
        *,
        least: float | None = None,
        choices: Mapping[Any, str] | None = None,
    ) -> None:
        """Register an attribute that users set with --accelerator npu:lanes=16.

        The type of the default, str, int, bool or float, is the type of the attribute.
        `least` is a lower bound.  `choices` maps values to notes, for attributes that need no
        other hardware; if a network does not fit, the compiler tries choices that the user left
        open.  Source: RFC 0060, _register_target_attr, without `least` and `choices`.

        >>> from penstock.uma import UMABackend
        >>> class Npu(UMABackend):
        ...     target_name = "npu"
        >>> npu = Npu()
        >>> npu._register_target_attr("lanes", default=8)
        >>> npu.accelerator({"lanes": 16}).target.attrs
        {'lanes': 16}

        Raises BackendError if the type is invalid, or the name taken or reserved."""
        check_attribute(name, default, self._registered.attributes, self._place)
        self._registered.attributes[name] = default
        self._registered.choices[name] = choices or {default: ""}
        if least is not None:
            self._registered.least[name] = least

    def _register_graph_pass(self, phase: PassPhase, graph_pass: GraphPass) -> None:
        """Register a pass (graph, AcceleratorTarget) -> graph.

        It runs before or after partitioning; passes of a phase run in order of registration.
        Source: RFC 0060, _register_relay_pass.

        >>> from penstock.uma import UMABackend
        >>> class Npu(UMABackend):
        ...     target_name = "npu"
        >>> npu = Npu()
        >>> npu._register_graph_pass(PassPhase.PRE_PARTITIONING, lambda graph, target: graph)
        >>> len(npu.accelerator().passes(PassPhase.PRE_PARTITIONING))
        1

        Raises BackendError if the phase is not one of graphs."""
        checks.check_pass(phase, graph_pass, checks.GRAPH_PHASES, "a graph", self._place)
        self._registered.graph_passes.append((phase, graph_pass))

    def _register_program_pass(self, phase: PassPhase, program_pass: ProgramPass) -> None:
        """Register a pass (program, AcceleratorTarget) -> program on the commands.

        Source: RFC 0060, _register_tir_pass.

        >>> from penstock.uma import UMABackend
        >>> class Npu(UMABackend):
        ...     target_name = "npu"
        >>> npu = Npu()
        >>> npu._register_program_pass(PassPhase.PROGRAM_PHASE_0, lambda program, target: program)
        >>> len(npu.accelerator().passes(PassPhase.TIR_PHASE_0))
        1

        Raises BackendError if the phase is not one of programs."""
        checks.check_pass(phase, program_pass, checks.PROGRAM_PHASES, "a program", self._place)
        self._registered.program_passes.append((phase, program_pass))

    def _register_relay_pass(self, phase: PassPhase, relay_pass: GraphPass) -> None:
        """`_register_graph_pass` under its name in RFC 0060."""
        self._register_graph_pass(phase, relay_pass)

    def _register_tir_pass(self, phase: PassPhase, tir_pass: ProgramPass) -> None:
        """`_register_program_pass` under its name in RFC 0060."""
        self._register_program_pass(phase, tir_pass)

    def _register_pattern(
        self, name: str, pattern: Pattern, predicate: Judge | None = None
    ) -> None:
        """Register a pattern whose matches become composites.

        If several patterns match, the one registered first wins.  `predicate` is a constraint for
        this pattern only.  Source: RFC 0060, _register_pattern; TVM later added the predicate.

        >>> from penstock.backends.pattern import is_constant, is_op, wildcard
        >>> from penstock.uma import UMABackend
        >>> class Npu(UMABackend):
        ...     target_name = "npu"
        >>> npu = Npu()
        >>> npu._register_pattern("conv2d", is_op("nn.conv2d")(wildcard(), is_constant()))
        >>> [pattern.name for pattern in npu.accelerator().patterns]
        ['conv2d']

        Raises BackendError if it is no pattern, or its name is taken."""
        where, taken = f'{self._place}, pattern "{name}"', self._registered.pattern_names
        checks.check_pattern(name, pattern, predicate, taken, where)
        self._registered.patterns.append((name, pattern, predicate))

    def _register_constraint(self, function: Judge) -> None:
        """Register a rule for all composites.

        The docstring of the function states the rule for users.  The function returns True, or the
        reason for a rejection as a text.  UMA has no constraints.

        >>> from penstock.uma import UMABackend
        >>> class Npu(UMABackend):
        ...     target_name = "npu"
        >>> def few_channels(offloaded):
        ...     "The output has at most 64 channels."
        ...     channels = offloaded.output.shape[-1]
        ...     return channels <= 64 or f"it has {channels}"
        >>> npu = Npu()
        >>> npu._register_constraint(few_channels)
        >>> [rule.__doc__ for rule in npu.accelerator().constraints]
        ['The output has at most 64 channels.']

        Raises BackendError if it is not callable or has no docstring."""
        where = f"{self._place}, constraint {name_of(function)}"
        checks.check_constraint(function, where)
        self._registered.constraints.append(function)

    def _register_operator_strategy(
        self, op: str, strategy: StrategyFunction, plevel: int = STRATEGY_LEVEL
    ) -> None:
        """Register how composites run whose main operator, or whose pattern, is called `op`.

        The highest level wins; the processor's kernels have level 10.
        Source: RFC 0060, _register_operator_strategy.

        >>> from penstock.uma import UMABackend
        >>> class Npu(UMABackend):
        ...     target_name = "npu"
        >>> npu = Npu()
        >>> npu._register_operator_strategy("nn.conv2d", lambda *facts: None, plevel=12)
        >>> [(strategy.op, strategy.level) for strategy in npu.accelerator().strategies]
        [('nn.conv2d', 12)]

        Raises BackendError."""
        checks.check_strategy(op, strategy, plevel, f'{self._place}, strategy for "{op}"')
        self._registered.strategies.append(RegisteredStrategy(op, strategy, plevel))

    def _register_codegen(
        self,
        fmt: str = "c",
        includes: str | Callable[[], str] | None = None,
        replace_call_extern: Callable[[Sequence[str]], str] | None = None,
        encoder: Callable[..., bytes] | None = None,
        sources: Sources | None = None,
        *,
        submit: Driver | None = None,
        format: str | None = None,
    ) -> None:
        """Register how calls of the driver are written.

        fmt: "c" for calls of driver functions, "stream" for bytes that an encoder returns.
            `format` is a synonym, from the listing of the RFC.
        includes: text at the head of the model's C, or a function that returns it.
        replace_call_extern: returns a call, given the texts of its arguments as a sequence whose
            `function` is the name of the driver function; by default, NAME(arguments).
        encoder: returns the bytes of the commands of a call, for `submit`.
        submit: the driver function that receives (stream, bytes, bases...).
        sources: files of the driver's header and of a stub in C: contents by name, names of files
            beside the backend's module, or a function of the AcceleratorTarget returning either.

        Source: RFC 0060, _register_codegen.

        >>> from penstock.uma import UMABackend
        >>> class Npu(UMABackend):
        ...     target_name = "npu"
        >>> npu = Npu()
        >>> npu._register_codegen(includes='#include "npu.h"', sources={"npu.h": "void npu(int);"})
        >>> npu.accelerator().codegen.sources
        (('npu.h', 'void npu(int);'),)

        Raises BackendError."""
        wanted = fmt if format is None else format
        where = f"{self._place}, code generation"
        checks.check_codegen(wanted, encoder, submit, replace_call_extern, where)
        files = sources or ()
        self._registered.codegen = RegisteredCodegen(
            wanted,
            includes,
            replace_call_extern,
            encoder,
            submit,
            files if callable(files) else read_sources(files, self._bases, where),
        )

    def _register_memory(
        self,
        name: str,
        size: int | str | SizeOf,
        *,
        bandwidth_bytes_per_cycle: float | BandwidthOf = 1.0,
        latency_cycles: int = 0,
        holds: tuple[str, ...] = ("scratch",),
        budget: bool = False,
    ) -> None:
        """Register a memory of the accelerator, available as `target.memories[name]`.

        `size` is in bytes or a text such as "32KiB"; size and bandwidth may be functions of the
        attributes.  A memory that holds "arena" may hold tensors between calls: the scheduler
        assigns tensors to it, and the processor can access it.  UMA has no memories.

        >>> from penstock.uma import UMABackend
        >>> class Npu(UMABackend):
        ...     target_name = "npu"
        >>> npu = Npu()
        >>> npu._register_memory("weights", "32KiB", bandwidth_bytes_per_cycle=8)
        >>> npu.accelerator().target.memories["weights"].size_bytes
        32768

        Raises BackendError."""
        known = [memory.region.name for memory in self._registered.memories]
        region = MemoryRegion(name, 1, holds, 1.0, latency_cycles, budget)
        self._registered.memories.append(
            registered_memory(region, size, bandwidth_bytes_per_cycle, known, self._place)
        )

    def _register_roofline(
        self, macs_per_cycle: float, bytes_per_cycle: float, cycles_per_call: float = 0.0
    ) -> None:
        """Register the cost of implementations that state none.

        The default is one multiply-accumulate per cycle and the bandwidth of the chip's memory.
        UMA has no costs.

        >>> from penstock.uma import UMABackend
        >>> class Npu(UMABackend):
        ...     target_name = "npu"
        >>> Npu()._register_roofline(macs_per_cycle=64, bytes_per_cycle=8, cycles_per_call=100)

        Raises BackendError if a figure is invalid."""
        roofline = Roofline(macs_per_cycle, bytes_per_cycle, cycles_per_call)
        roofline.check(self._place)
        self._registered.roofline = roofline

    def _register_tiler(self, op: str, tiler: Tiler) -> None:
        """Register the tiler of an operator or pattern, for kernels that use local memories.

        The tiler registered last wins, so users may override the author's.  Kernels obtain it from
        `offloaded.tiler(default)`.  UMA has no tilers, SMAUG has.

        >>> from penstock.tiling.least_traffic import LeastTraffic
        >>> from penstock.uma import UMABackend
        >>> class Npu(UMABackend):
        ...     target_name = "npu"
        >>> npu = Npu()
        >>> npu._register_tiler("nn.conv2d", LeastTraffic(only=frozenset("hc")))
        >>> [op for op, tiler in npu.accelerator().target.tilers]
        ['nn.conv2d']

        Raises BackendError if it is no tiler, or the operator or pattern is unknown."""
        where = f'{self._place}, tiler for "{op}"'
        checks.check_tiler(op, tiler, self._registered.pattern_names, where)
        self._registered.tilers.append((op, tiler))

    @property
    def _place(self) -> str:
        """The place that errors about the description state."""
        return f"accelerator {self.target_name}, class {type(self).__name__}"

    @property
    def _bases(self) -> tuple[type, ...]:
        """The class and its bases, the class first, up to `UMABackend`."""
        bases = type(self).__mro__
        return tuple(b for b in bases if issubclass(b, Registration) and not _is_own(b))


def _is_own(base: type) -> bool:
    """Whether a class is part of this package, not of an accelerator."""
    return base.__module__.startswith("penstock.backends.uma.")
