"""Registration: the methods by which a backend registers the features of its accelerator.

Source: TVM RFC 0060 (UMA), "UMABackend References".  The methods have the names that the RFC uses.
penstock adds constraints, memories, rooflines and tilers.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.backends.accelerator import (
    PROGRAM_PHASES,
    GraphPass,
    PassPhase,
    ProgramPass,
    RegionFunction,
    StreamDriver,
    Value,
)
from penstock.backends.description import name_of, require_callable
from penstock.backends.op_strategy import Roofline, StrategyFunction
from penstock.backends.pattern import Pattern
from penstock.backends.uma import checks
from penstock.backends.uma.registrations import (
    BandwidthOf,
    BankOf,
    Includes,
    Judge,
    RegisteredCodegen,
    RegisteredPattern,
    RegisteredStrategy,
    Registrations,
    SizeOf,
    Sources,
    check_attribute,
    read_sources,
    registered_memory,
)
from penstock.hardware.target import MemoryRegion
from penstock.program.program import Driver
from penstock.tiling.nest import Tiler

# DriverRegistration: registers the functions of an accelerator's driver that select an instance
# and wait for queued calls.


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

        >>> from penstock.uma import Driver, UMABackend
        >>> class Npu(UMABackend):
        ...     target_name = "npu"
        >>> npu = Npu()
        >>> def select(device, number):
        ...     device["instance"] = number
        >>> npu._register_instances(Driver("npu_select", "npu", model=select, device=dict))
        >>> npu.accelerator().codegen.select.name
        'npu_select'

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

        >>> from penstock.uma import Driver, UMABackend
        >>> class Npu(UMABackend):
        ...     target_name = "npu"
        >>> npu = Npu()
        >>> npu._register_wait(Driver("npu_wait", "npu", model=lambda device: None, device=dict))
        >>> npu.accelerator().codegen.wait.name
        'npu_wait'

        Raises BackendError if `wait` is not a Driver."""
        takes = "the state of the device"
        checks.check_driver(wait, "waits for streams", "npu_wait", takes, self._place)
        self._registered.wait = wait


# The default priority of strategies, one above that of the processor's kernels.
STRATEGY_LEVEL = 11


class Registration(DriverRegistration):
    """Base class of `UMABackend` with the methods that register features."""

    @property
    @abstractmethod
    def target_name(self) -> str:
        """The name of the accelerator, made of lower-case letters, digits and underscores."""

    @property
    def attributes(self) -> Mapping[str, Value]:
        """The defaults of the registered attributes, by name."""
        return dict(self._registered.attributes)

    def _register_target_attr(
        self,
        name: str,
        default: Value = "",
        *,
        least: float = -math.inf,
        most: float = math.inf,
        choices: Mapping[Any, str] | None = None,
        searched: bool = False,
    ) -> None:
        """Register an attribute that users set, for example with --accelerator npu:lanes=16.

        default: the default value; its type, str, int, bool or float, is the attribute's type.
            An int may be set with a unit of bytes, such as 16KiB.
        least, most: the smallest and the largest valid value.
        choices: values that the same hardware supports, each with a note for users; None for no
            choices.  If a network does not fit and the user did not set the attribute, the compiler
            tries these values.
        searched: whether the search compares the schedules of all choices where tensors then need
            less memory, if the user did not set the attribute.  The choices may differ in graph
            passes and kernels, not in generated code.

        Source: RFC 0060, _register_target_attr, without `least`, `most`, `choices` and `searched`.

        >>> from penstock.uma import UMABackend
        >>> class Npu(UMABackend):
        ...     target_name = "npu"
        >>> npu = Npu()
        >>> npu._register_target_attr("lanes", default=8, least=1)
        >>> npu.accelerator({"lanes": 16}).target.attrs
        {'lanes': 16}

        Raises BackendError if the type of the default is invalid, or if the name is invalid, taken
        or reserved."""
        check_attribute(name, default, self._registered.attributes, self._place)
        self._registered.attributes[name] = default
        self._registered.choices[name] = choices or {default: ""}
        self._registered.ranges[name] = (least, most)
        if searched:
            self._registered.searched.add(name)

    def _register_graph_pass(self, phase: PassPhase, graph_pass: GraphPass) -> None:
        """Register a graph pass: a function (graph, AcceleratorTarget) -> graph.

        phase: when the pass runs, before or after partitioning; passes of one phase run in order of
            registration.

        Source: RFC 0060, _register_relay_pass.

        >>> from penstock.uma import UMABackend
        >>> class Npu(UMABackend):
        ...     target_name = "npu"
        >>> npu = Npu()
        >>> npu._register_graph_pass(PassPhase.PRE_PARTITIONING, lambda graph, target: graph)
        >>> len(npu.accelerator().passes(PassPhase.PRE_PARTITIONING))
        1

        Raises BackendError if the pass is not callable, or if `phase` is a phase of program
        passes."""
        checks.check_pass(phase, graph_pass, checks.GRAPH_PHASES, "a graph", self._place)
        self._registered.graph_passes.append((phase, graph_pass))

    def _register_program_pass(self, phase: PassPhase, program_pass: ProgramPass) -> None:
        """Register a program pass: a function (program, AcceleratorTarget) -> program.

        phase: when the pass runs, which determines what it sees and may change (`PassPhase`);
            passes of one phase run in order of registration.

        Source: RFC 0060, _register_tir_pass.  UMA's name for PROGRAM_PHASE_n is TIR_PHASE_n.

        >>> from penstock.uma import UMABackend
        >>> class Npu(UMABackend):
        ...     target_name = "npu"
        >>> npu = Npu()
        >>> npu._register_program_pass(PassPhase.PROGRAM_PHASE_0, lambda program, target: program)
        >>> len(npu.accelerator().passes(PassPhase.TIR_PHASE_0))
        1

        Raises BackendError if the pass is not callable, or if `phase` is a phase of graph
        passes."""
        checks.check_pass(phase, program_pass, PROGRAM_PHASES, "a program", self._place)
        self._registered.program_passes.append((phase, program_pass))

    def _register_relay_pass(self, phase: PassPhase, relay_pass: GraphPass) -> None:
        """Alias of `_register_graph_pass` with the name that RFC 0060 uses.

        >>> from penstock.uma import UMABackend
        >>> class Npu(UMABackend):
        ...     target_name = "npu"
        >>> npu = Npu()
        >>> npu._register_relay_pass(PassPhase.POST_PARTITIONING, lambda graph, target: graph)
        >>> len(npu.accelerator().passes(PassPhase.POST_PARTITIONING_0))
        1
        """
        self._register_graph_pass(phase, relay_pass)

    def _register_tir_pass(self, phase: PassPhase, tir_pass: ProgramPass) -> None:
        """Alias of `_register_program_pass` with the name that RFC 0060 uses.

        >>> from penstock.uma import UMABackend
        >>> class Npu(UMABackend):
        ...     target_name = "npu"
        >>> npu = Npu()
        >>> npu._register_tir_pass(PassPhase.TIR_PHASE_0, lambda program, target: program)
        >>> len(npu.accelerator().passes(PassPhase.PROGRAM_PHASE_0))
        1
        """
        self._register_program_pass(phase, tir_pass)

    def _register_pattern(
        self,
        name: str,
        pattern: Pattern,
        predicate: Judge | None = None,
        *,
        wide_weights: bool = False,
    ) -> None:
        """Register a pattern.  The nodes of each match become a single node, a composite.

        name: the name of the pattern and of its composites, unique within the backend.
        predicate: a constraint for matches of this pattern only; None for none.
        wide_weights: whether layers match whose weights less their zero point have 9 bits, as in
            networks of uint8; these weights are int16.

        If several patterns match, the one registered first takes precedence.  Source: RFC 0060,
        _register_pattern; TVM later added the predicate.

        >>> from penstock.backends.pattern import is_constant, is_op, wildcard
        >>> from penstock.uma import UMABackend
        >>> class Npu(UMABackend):
        ...     target_name = "npu"
        >>> npu = Npu()
        >>> npu._register_pattern("conv2d", is_op("nn.conv2d")(wildcard(), is_constant()))
        >>> [pattern.name for pattern in npu.accelerator().patterns]
        ['conv2d']

        Raises BackendError if an argument has a wrong type or the name is taken."""
        where, taken = f'{self._place}, pattern "{name}"', self._registered.pattern_names
        checks.check_pattern(name, pattern, predicate, taken, where)
        self._registered.patterns.append(RegisteredPattern(name, pattern, predicate, wide_weights))

    def _register_constraint(self, function: Judge) -> None:
        """Register a constraint: a condition on every composite (matched nodes as a single node).

        The function returns True to accept a composite, and False or a string with the reason to
        refuse it.  Messages quote the function's docstring.  UMA has no constraints.

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

        Raises BackendError if the function is not callable or has no docstring."""
        where = f"{self._place}, constraint {name_of(function)}"
        checks.check_constraint(function, where)
        self._registered.constraints.append(function)

    def _register_operator_strategy(
        self, op: str, strategy: StrategyFunction, plevel: int = STRATEGY_LEVEL
    ) -> None:
        """Register a strategy: a function that returns implementations (kernels) for composites.

        op: the name of an operator or pattern.  The strategy applies to composites (matched nodes
            as a single node) whose main operator or pattern has this name.
        plevel: the priority; higher levels are tried first.  The processor's kernels have level 10.

        Source: RFC 0060, _register_operator_strategy.

        >>> from penstock.uma import UMABackend
        >>> class Npu(UMABackend):
        ...     target_name = "npu"
        >>> npu = Npu()
        >>> npu._register_operator_strategy("nn.conv2d", lambda *facts: None, plevel=12)
        >>> [(strategy.op, strategy.level) for strategy in npu.accelerator().strategies]
        [('nn.conv2d', 12)]

        Raises BackendError if an argument has a wrong type."""
        checks.check_strategy(op, strategy, plevel, f'{self._place}, strategy for "{op}"')
        self._registered.strategies.append(RegisteredStrategy(op, strategy, plevel))

    def _register_codegen(
        self,
        fmt: str = "c",
        includes: Includes | None = None,
        replace_call_extern: Callable[[Sequence[str]], str] | None = None,
        encoder: Callable[..., bytes] | None = None,
        sources: Sources | None = None,
        *,
        submit: Driver | StreamDriver | None = None,
        format: str | None = None,
    ) -> None:
        """Register how the commands of the accelerator are generated.

        fmt: "c" for C calls of driver functions, "stream" for command streams.
        includes: C text at the beginning of the model's C file, or a function that returns it
            (see below).
        replace_call_extern: a function that returns the C text of a driver call.  Its argument is a
            sequence of the C texts of the call's arguments, with the attribute `function`, the name
            of the driver function.  If it is None, the text is NAME(arguments).
        encoder: a function that returns the command stream of a kernel call as bytes, for fmt
            "stream".
        sources: the driver's header and a stub in C: file contents by file name, names of files in
            the folder of the backend's module, or a function that returns either (see below).
        submit: the driver function that receives a stream, its size in bytes, and the base
            addresses that the stream uses, for fmt "stream"; or a `StreamDriver` with it.
        format: synonym of `fmt`, from the listing of the RFC; if given, `fmt` is ignored.

        All functions run after all passes of the network that is compiled, and see their results:
        what passes have stored, for example in their own attributes, and the emitted
        program.  `includes` and `sources` have up to two parameters, the AcceleratorTarget and the
        Program.  Composites, with the attributes that graph passes have added, are the operators
        of the program's calls: `call.op.attribute("words")`.

        Source: RFC 0060, _register_codegen.

        >>> from penstock.uma import UMABackend
        >>> class Npu(UMABackend):
        ...     target_name = "npu"
        >>> npu = Npu()
        >>> npu._register_codegen(includes='#include "npu.h"', sources={"npu.h": "void npu(int);"})
        >>> npu.accelerator().codegen.sources
        (('npu.h', 'void npu(int);'),)

        Raises BackendError if the arguments are inconsistent or a file cannot be read."""
        wanted = fmt if format is None else format
        where = f"{self._place}, code generation"
        driver = submit if isinstance(submit, StreamDriver) else submit and StreamDriver(submit)
        submit = None if driver is None else driver.submit
        checks.check_codegen(wanted, encoder, submit, replace_call_extern, where)
        files = sources or ()
        self._registered.codegen = RegisteredCodegen(
            wanted,
            includes,
            replace_call_extern,
            encoder,
            driver,
            files if callable(files) else read_sources(files, self._bases, where),
        )

    def _register_region(self, function: RegionFunction) -> None:
        """Register a function that merges the calls of a compiler region into one call.

        A compiler region consists of adjacent composites (matched nodes as single nodes) that run
        as one.

        function: its argument is a sequence with the commands of each call, in order.  It returns
            the commands of the single call that replaces these calls.  It is called after the
            passes of PROGRAM_PHASE_2, and before those of PROGRAM_PHASE_3.

        Without this registration, the commands of all calls are concatenated in one command
        stream; for an accelerator that is called in C, the calls remain separate.

        >>> from penstock.uma import UMABackend
        >>> class Npu(UMABackend):
        ...     target_name = "npu"
        >>> npu = Npu()
        >>> npu._register_region(lambda calls: [command for call in calls for command in call])

        Raises BackendError if the function is not callable."""
        where = f"{self._place}, region function {name_of(function)}"
        require_callable(function, "region function", "the commands of each call", where)
        self._registered.region = function

    def _register_memory(
        self,
        name: str,
        size: int | str | SizeOf,
        *,
        bandwidth_bytes_per_cycle: float | BandwidthOf = 1.0,
        latency_cycles: int = 0,
        holds: tuple[str, ...] = ("scratch",),
        budget: bool = False,
        bank_bytes: int | BankOf = 0,
    ) -> None:
        """Register a memory of the accelerator, available as `target.memories[name]`.

        size: bytes, a string such as "32KiB", or a function of the attributes; if the function
            returns 0, the accelerator does not have the memory.
        bandwidth_bytes_per_cycle: a number, or a function of the attributes.
        latency_cycles: the latency of an access by the processor.
        holds: what the memory may contain: "scratch" for data during a call; "arena" for tensors
            between calls, which the scheduler assigns to the memory and the processor can access.
        budget: whether the search for a schedule minimises the use of this memory.
        bank_bytes: the size of a bank, or a function of the attributes, if tensors that are live at
            the same time must not share a bank; 0 for a memory without banks.

        UMA has no memories.

        >>> from penstock.uma import UMABackend
        >>> class Npu(UMABackend):
        ...     target_name = "npu"
        >>> npu = Npu()
        >>> npu._register_memory("weights", "32KiB", bandwidth_bytes_per_cycle=8)
        >>> npu.accelerator().target.memories["weights"].size_bytes
        32768

        Raises BackendError if a value is invalid or the name is taken."""
        known = [memory.region.name for memory in self._registered.memories]
        region = MemoryRegion(name, 1, holds, 1.0, latency_cycles, budget)
        self._registered.memories.append(
            registered_memory(
                region, size, bandwidth_bytes_per_cycle, bank_bytes, known, self._place
            )
        )

    def _register_roofline(
        self, macs_per_cycle: float, bytes_per_cycle: float, cycles_per_call: float = 0.0
    ) -> None:
        """Register the roofline model, which applies to implementations without a cost function.

        A call takes `cycles_per_call` plus the longer of two times: computing its operations, at
        `macs_per_cycle`, and moving the bytes of inputs, constants and output, at
        `bytes_per_cycle` (`Roofline`).  Without this registration, the model assumes one
        multiply-accumulate per cycle and the bandwidth of the chip's memory for activations.  UMA
        has no costs.

        >>> from penstock.uma import UMABackend
        >>> class Npu(UMABackend):
        ...     target_name = "npu"
        >>> Npu()._register_roofline(macs_per_cycle=64, bytes_per_cycle=8, cycles_per_call=100)

        Raises BackendError if a number is invalid."""
        roofline = Roofline(macs_per_cycle, bytes_per_cycle, cycles_per_call)
        roofline.check(self._place)
        self._registered.roofline = roofline

    def _register_tiler(self, op: str, tiler: Tiler) -> None:
        """Register the tiler of an operator or pattern.

        A tiler divides layers into tiles that fit local memories.  If several tilers apply, the one
        registered last takes precedence, so users can override the tiler of an installed backend.
        Kernels obtain their tiler from `offloaded.tiler(default)`.  UMA has no tilers; the idea is
        from SMAUG.

        op: the name of the operator or pattern.

        >>> from penstock.tiling.least_traffic import LeastTraffic
        >>> from penstock.uma import UMABackend
        >>> class Npu(UMABackend):
        ...     target_name = "npu"
        >>> npu = Npu()
        >>> npu._register_tiler("nn.conv2d", LeastTraffic(only=frozenset("hc")))
        >>> [op for op, tiler in npu.accelerator().target.tilers]
        ['nn.conv2d']

        Raises BackendError if `tiler` is not a tiler, or the operator or pattern is unknown."""
        where = f'{self._place}, tiler for "{op}"'
        checks.check_tiler(op, tiler, self._registered.pattern_names, where)
        self._registered.tilers.append((op, tiler))

    @property
    def _place(self) -> str:
        """The name of the accelerator and of its class, as the location in error messages."""
        return f"accelerator {self.target_name}, class {type(self).__name__}"

    @property
    def _bases(self) -> tuple[type, ...]:
        """The backend's class and its base classes, without those of penstock's interface.

        Files that the backend names are read from the folders of these classes."""
        bases = type(self).__mro__
        return tuple(b for b in bases if issubclass(b, Registration) and not _is_own(b))


def _is_own(base: type) -> bool:
    """Return whether a class is this package's own (`penstock.backends.uma`), not a backend's."""
    return base.__module__.startswith("penstock.backends.uma.")
