"""UMABackend: through which an accelerator joins, by inheritance and registration.

    class Npu(UMABackend):
        def __init__(self):
            super().__init__()
            self._register_target_attr("lanes", default=8)
            self._register_pattern("conv2d", is_op("nn.conv2d")(...))
            self._register_operator_strategy("nn.conv2d", conv2d_strategy)
            self._register_codegen(includes='#include "npu.h"', sources=("npu.h", "npu.c"))

        @property
        def target_name(self):
            return "npu"

It is a facade: `accelerator` makes the frozen record that the compiler sees.

Source: TVM RFC 0060 (UMA), "UMABackend References"; the names are its names.  What it did not have:
constraints, memories, rooflines, and costs, tables and functional models of implementations.
"""

from __future__ import annotations

import functools
import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, cast

from penstock.backends.accelerator import (
    Accelerator,
    AcceleratorTarget,
    Codegen,
    GraphPass,
    NamedPattern,
    OpenChoice,
    PassPhase,
    ProgramPass,
    Value,
)
from penstock.backends.description import authors_code, is_name, name_of, require_callable
from penstock.backends.kernel_call import Offloaded
from penstock.backends.offload import claimed
from penstock.backends.op_strategy import StrategyFunction, strategy_record
from penstock.backends.operator_names import meaning
from penstock.backends.pattern import Pattern
from penstock.backends.roofline import ABOVE_0, Roofline, is_figure
from penstock.backends.target_attributes import check_attribute, values
from penstock.errors import BackendError, UsageError
from penstock.hardware.load import load_target
from penstock.hardware.size import parse_size
from penstock.hardware.target import MemoryRegion, Target
from penstock.ir.graph import Graph, Node
from penstock.program.program import Driver
from penstock.tiling.tiler import Tiler

STRATEGY_LEVEL = 11
"""One above the core's: an accelerator that has a strategy runs the operator."""

GRAPH_PHASES = (
    PassPhase.PRE_PARTITIONING,
    PassPhase.POST_PARTITIONING_0,
    PassPhase.POST_PARTITIONING_1,
)
PROGRAM_PHASES = tuple(phase for phase in PassPhase if phase not in GRAPH_PHASES)
FORMATS = ("c", "stream")
TILER_METHODS = ("dims", "shapes", "cut", "nest", "prefer")

Judge = Callable[[Offloaded], bool | str]
"""Whether an accelerator takes a composite: True; or False, or a text that says why not."""

SizeOf = Callable[[Mapping[str, Value]], int | str]
"""The size of a memory, from the attributes that a user set; 0: there is none."""
BandwidthOf = Callable[[Mapping[str, Value]], float]
"""Its bytes per cycle, from the attributes that a user set."""

Files = Mapping[str, str] | Sequence[str]
"""Files by name; or names of files that lie beside the backend's own."""

Sources = Files | Callable[[AcceleratorTarget], Files]
"""Files; or a function that gives them, where they depend on attributes."""

REGISTERED: dict[str, UMABackend] = {}
"""What this process registered, by name."""


@dataclass(slots=True)
class _Strategy:
    op: str
    function: StrategyFunction
    level: int


@dataclass(slots=True)
class _Codegen:
    fmt: str = "c"
    includes: str | Callable[[], str] | None = None
    replace_call_extern: Callable[[Sequence[str]], str] | None = None
    encoder: Callable[..., bytes] | None = None
    submit: Driver | None = None
    sources: tuple[tuple[str, str], ...] | Callable[[AcceleratorTarget], Files] = ()


@dataclass(frozen=True, slots=True)
class _Memory:
    """A memory; in `region`, size and bandwidth are 1 where functions give them."""

    region: MemoryRegion
    size: int | str | SizeOf
    bandwidth_bytes_per_cycle: float | BandwidthOf


@dataclass(slots=True)
class _Registered:
    """All that a backend registers."""

    merge_compiler_regions: bool = True
    attributes: dict[str, Value] = field(default_factory=dict[str, Value])
    choices: dict[str, Mapping[Any, str]] = field(default_factory=dict[str, Mapping[Any, str]])
    least: dict[str, float] = field(default_factory=dict[str, float])
    graph_passes: list[tuple[PassPhase, GraphPass]] = field(
        default_factory=list[tuple[PassPhase, GraphPass]]
    )
    program_passes: list[tuple[PassPhase, ProgramPass]] = field(
        default_factory=list[tuple[PassPhase, ProgramPass]]
    )
    patterns: list[tuple[str, Pattern, Judge | None]] = field(
        default_factory=list[tuple[str, Pattern, Judge | None]]
    )
    constraints: list[Judge] = field(default_factory=list[Judge])
    strategies: list[_Strategy] = field(default_factory=list[_Strategy])
    codegen: _Codegen = field(default_factory=_Codegen)
    memories: list[_Memory] = field(default_factory=list["_Memory"])
    roofline: Roofline | None = None
    tilers: list[tuple[str, Tiler]] = field(default_factory=list[tuple[str, Tiler]])


class UMABackend(ABC):
    """An accelerator's description: inherit, and register in `__init__` what it has.

    `merge_compiler_regions`: neighbouring composites get one region number (RFC 0060,
    "Configuration").

    >>> class Npu(UMABackend):
    ...     target_name = "npu"
    >>> Npu().accelerator().name
    'npu'
    """

    def __init__(self, merge_compiler_regions: bool = True) -> None:
        self._registered.merge_compiler_regions = merge_compiler_regions

    @functools.cached_property
    def _registered(self) -> _Registered:
        """What was registered so far."""
        return _Registered()

    @property
    @abstractmethod
    def target_name(self) -> str:
        """The accelerator's name, as users write it: small letters, digits and _."""

    def _register_target_attr(
        self,
        name: str,
        default: Value = "",
        *,
        least: float | None = None,
        choices: Mapping[Any, str] | None = None,
    ) -> None:
        """An attribute of the accelerator, which users set with --accelerator npu:lanes=16.

        Its type is the default's: str, int, bool or float; a number less than `least` is refused.
        `choices`: values that need no other hardware and no other memories, each with a note on
        what else it means, or ""; where a network does not fit, those that the user left open are
        tried.  Source: RFC 0060, _register_target_attr, which has neither.

        >>> class Npu(UMABackend):
        ...     target_name = "npu"
        >>> npu = Npu()
        >>> npu._register_target_attr("lanes", default=8)
        >>> npu.accelerator({"lanes": 16}).target.attrs
        {'lanes': 16}

        Raises BackendError where it is of another type, or the name is taken or reserved."""
        check_attribute(name, default, self._registered.attributes, self._place)
        self._registered.attributes[name] = default
        self._registered.choices[name] = choices or {default: ""}
        if least is not None:
            self._registered.least[name] = least

    def _register_graph_pass(self, phase: PassPhase, graph_pass: GraphPass) -> None:
        """A function of (graph, AcceleratorTarget) that gives a graph; runs before or after the
        graph is partitioned, in order of registration.  Source: RFC 0060, _register_relay_pass.

        >>> class Npu(UMABackend):
        ...     target_name = "npu"
        >>> npu = Npu()
        >>> npu._register_graph_pass(PassPhase.PRE_PARTITIONING, lambda graph, target: graph)
        >>> len(npu.accelerator().passes(PassPhase.PRE_PARTITIONING))
        1

        Raises BackendError where the phase is not one of graphs."""
        self._check_pass(phase, graph_pass, GRAPH_PHASES, "a graph")
        self._registered.graph_passes.append((phase, graph_pass))

    def _register_program_pass(self, phase: PassPhase, program_pass: ProgramPass) -> None:
        """A function of (program, AcceleratorTarget) that gives a program; runs on the commands
        before they are written as C.  Source: RFC 0060, _register_tir_pass.

        >>> class Npu(UMABackend):
        ...     target_name = "npu"
        >>> npu = Npu()
        >>> npu._register_program_pass(PassPhase.PROGRAM_PHASE_0, lambda program, target: program)
        >>> len(npu.accelerator().passes(PassPhase.TIR_PHASE_0))
        1

        Raises BackendError where the phase is not one of programs."""
        self._check_pass(phase, program_pass, PROGRAM_PHASES, "a program")
        self._registered.program_passes.append((phase, program_pass))

    def _register_relay_pass(self, phase: PassPhase, relay_pass: GraphPass) -> None:
        """`_register_graph_pass` under the name that it has in RFC 0060.

        >>> class Npu(UMABackend):
        ...     target_name = "npu"
        >>> Npu()._register_relay_pass(PassPhase.POST_PARTITIONING, lambda graph, target: graph)
        """
        self._register_graph_pass(phase, relay_pass)

    def _register_tir_pass(self, phase: PassPhase, tir_pass: ProgramPass) -> None:
        """`_register_program_pass` under the name that it has in RFC 0060.

        >>> class Npu(UMABackend):
        ...     target_name = "npu"
        >>> Npu()._register_tir_pass(PassPhase.TIR_PHASE_0, lambda program, target: program)
        """
        self._register_program_pass(phase, tir_pass)

    def _register_pattern(
        self, name: str, pattern: Pattern, predicate: Judge | None = None
    ) -> None:
        """Nodes that the accelerator takes as one; where several patterns match, the one that was
        registered first has them.  `predicate`: as a constraint, for this pattern alone.
        Source: RFC 0060, _register_pattern; TVM added the predicate.

        >>> from penstock.backends.pattern import is_constant, is_op, wildcard
        >>> class Npu(UMABackend):
        ...     target_name = "npu"
        >>> npu = Npu()
        >>> npu._register_pattern("conv2d", is_op("nn.conv2d")(wildcard(), is_constant()))
        >>> [pattern.name for pattern in npu.accelerator().patterns]
        ['conv2d']

        Raises BackendError where it is no pattern, or there is one of that name."""
        where = f'{self._place}, pattern "{name}"'
        if predicate is not None:
            require_callable(predicate, "predicate", "an Offloaded", where)
        if not is_name(name):
            raise BackendError(
                "backend-034",
                f"the pattern's name is {name!r}, must be a text",
                where=where,
                help="give it a name: strategies and reports call composites by it",
            )
        taken = any(name == other for other, _, _ in self._registered.patterns)
        if not isinstance(cast(object, pattern), Pattern) or taken:
            raise BackendError(
                "backend-034",
                "there is a pattern of that name"
                if taken
                else f"what is given is a {type(pattern).__name__}, no pattern",
                where=where,
                help="give each its own name"
                if taken
                else 'write is_op("nn.conv2d")(wildcard(), is_constant()), or call the function '
                "that makes it",
            )
        self._registered.patterns.append((name, pattern, predicate))

    def _register_constraint(self, function: Judge) -> None:
        """What every composite must obey: the function's docstring is the rule, and it gives True,
        or a text that says why this one does not.  UMA has none.

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

        Raises BackendError where it cannot be called, or states no rule."""
        where = f"{self._place}, constraint {name_of(function)}"
        require_callable(function, "constraint", "an Offloaded", where)
        if not inspect.getdoc(function):
            raise BackendError(
                "backend-032",
                "the constraint has no docstring",
                where=where,
                why="the docstring is the rule that users read where a node is refused",
                help='write it as a sentence: "The stride is 1 or 2."',
            )
        self._registered.constraints.append(function)

    def _register_operator_strategy(
        self, op: str, strategy: StrategyFunction, plevel: int = STRATEGY_LEVEL
    ) -> None:
        """How composites run whose main operator is `op`, or whose pattern has that name.

        The core's level is 10; the highest level wins.
        Source: RFC 0060, _register_operator_strategy.

        >>> class Npu(UMABackend):
        ...     target_name = "npu"
        >>> npu = Npu()
        >>> npu._register_operator_strategy("nn.conv2d", lambda *facts: None, plevel=12)
        >>> [(strategy.op, strategy.level) for strategy in npu.accelerator().strategies]
        [('nn.conv2d', 12)]

        Raises BackendError."""
        where = f'{self._place}, strategy for "{op}"'
        require_callable(strategy, "strategy", "attrs, inputs, out_type and target", where)
        if not isinstance(cast(object, op), str) or type(plevel) is not int:
            raise BackendError(
                "backend-035",
                f"operator {op!r} at level {plevel!r}, must be a text and a whole number",
                where=where,
                help="the core's own kernels have level 10; the highest level wins",
            )
        self._registered.strategies.append(_Strategy(op, strategy, plevel))

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
        """How calls of the driver are written.  Source: RFC 0060, _register_codegen; its listing
        writes `format` for `fmt`.

        `includes`: text at the head of the model's C, or a function that gives it.
        `replace_call_extern`: makes a call from the texts of its arguments, a sequence whose
            `function` is the driver function's name; None: NAME(arguments).
        `encoder`, with fmt="stream": makes the bytes of the commands of a call, which are then
            handed to `submit`: submit(stream, bytes, bases...).
        `sources`: files that go with the model: the driver's header and a stub of it in C; by name,
            or names of files that lie beside the backend's own; or a function of the
            AcceleratorTarget that gives either.

        >>> class Npu(UMABackend):
        ...     target_name = "npu"
        >>> npu = Npu()
        >>> npu._register_codegen(includes='#include "npu.h"', sources={"npu.h": "void npu(int);"})
        >>> npu.accelerator().codegen.sources
        (('npu.h', 'void npu(int);'),)

        Raises BackendError."""
        wanted = fmt if format is None else format
        where = f"{self._place}, code generation"
        complete = encoder is not None and submit is not None
        if wanted not in FORMATS or (wanted == "stream") != complete:
            raise BackendError(
                "backend-037",
                f"format {wanted!r} {_given(encoder, submit)}",
                where=where,
                why='there are "c" (calls of a driver) and "stream" (bytes that an encoder makes)',
                help='write fmt="c"; or fmt="stream", an encoder and submit, a driver function',
            )
        for role, function in (("replace_call_extern", replace_call_extern), ("encoder", encoder)):
            if function is not None:
                require_callable(function, role, "the arguments of a call", where)
        self._registered.codegen = _Codegen(
            wanted,
            includes,
            replace_call_extern,
            encoder,
            submit,
            sources if callable(sources) else self._read(sources or (), where),
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
        """A memory of the accelerator's own, which constraints, costs and passes find in
        `target.memories`; `size` in bytes or as "32KiB".  Size and bandwidth may be functions that
        give them, where they depend on attributes.  With "arena" in `holds`, tensors may live there
        between calls: the scheduler chooses which, and the processor reaches it, too.  UMA has
        none.

        >>> class Npu(UMABackend):
        ...     target_name = "npu"
        >>> npu = Npu()
        >>> npu._register_memory("weights", "32KiB", bandwidth_bytes_per_cycle=8)
        >>> npu.accelerator().target.memories["weights"].size_bytes
        32768

        Raises BackendError."""
        if not is_name(name):
            raise self._bad_memory(name, size, f"its name is {name!r}, must be a text")
        if name in [other.region.name for other in self._registered.memories]:
            raise self._bad_memory(name, size, f'there is a memory "{name}"')
        bandwidth = bandwidth_bytes_per_cycle
        known = 1.0 if callable(bandwidth) else bandwidth
        region = MemoryRegion(name, 1, holds, known, latency_cycles, budget)
        region = self._sized(region, 1 if callable(size) else size)
        self._registered.memories.append(_Memory(region, size, bandwidth))

    def _sized(self, memory: MemoryRegion, size: int | str) -> MemoryRegion:
        """The memory with its size.  Raises BackendError where it is described wrongly."""
        try:
            size_bytes = parse_size(size) if isinstance(size, str) else size
        except UsageError:
            size_bytes = 0
        memory = replace(memory, size_bytes=size_bytes)
        if problem := _memory_problem(memory):
            raise self._bad_memory(memory.name, size, problem)
        return memory

    def _bad_memory(self, name: str, size: object, problem: str) -> BackendError:
        return BackendError(
            "backend-039",
            f"the memory of {size!r} is described wrongly",
            where=f'{self._place}, memory "{name}"',
            why=problem,
            help='sizes are in bytes or as "32KiB", bandwidths in bytes per cycle',
        )

    def _memories(self, attrs: Mapping[str, Value], chip: Target) -> dict[str, MemoryRegion]:
        """The memories with the attributes that a user set, by name.  Raises BackendError."""
        found: dict[str, MemoryRegion] = {}
        for one in self._registered.memories:
            memory = self._memory(one, attrs)
            if memory is None:
                continue
            if any(memory.name == other.name for other in chip.memories):
                raise self._bad_memory(
                    memory.name, memory.size_bytes, f"{chip.name} has a memory of that name"
                )
            found[memory.name] = memory
        return found

    def _memory(self, one: _Memory, attrs: Mapping[str, Value]) -> MemoryRegion | None:
        """A memory with the attributes that a user set; None where its size is then 0.

        Raises BackendError."""
        size, bandwidth = one.size, one.bandwidth_bytes_per_cycle
        where = f'{self._place}, memory "{one.region.name}"'
        if callable(size):
            with authors_code("function size", where):
                size = size(attrs)
        if callable(bandwidth):
            with authors_code("function bandwidth_bytes_per_cycle", where):
                bandwidth = bandwidth(attrs)
        if size == 0:
            return None
        return self._sized(replace(one.region, bandwidth_bytes_per_cycle=bandwidth), size)

    def _register_roofline(
        self, macs_per_cycle: float, bytes_per_cycle: float, cycles_per_call: float = 0.0
    ) -> None:
        """What implementations cost that state no cost.  Where there is none: one product a cycle,
        and the bandwidth of the chip's memory.  UMA has no costs.

        >>> class Npu(UMABackend):
        ...     target_name = "npu"
        >>> Npu()._register_roofline(macs_per_cycle=64, bytes_per_cycle=8, cycles_per_call=100)

        Raises BackendError where a figure is none."""
        roofline = Roofline(macs_per_cycle, bytes_per_cycle, cycles_per_call)
        roofline.check(self._place)
        self._registered.roofline = roofline

    def _register_tiler(self, op: str, tiler: Tiler) -> None:
        """Who cuts layers of an operator, or of a pattern, for the accelerator's local memories; of
        several, the one that was registered last, so that users may put theirs above its author's.
        Kernels ask `offloaded.tiler(default)`.  UMA has no tilers, SMAUG has.

        >>> from penstock.tiling.least_traffic import LeastTraffic
        >>> class Npu(UMABackend):
        ...     target_name = "npu"
        >>> npu = Npu()
        >>> npu._register_tiler("nn.conv2d", LeastTraffic(only=frozenset("hc")))
        >>> [op for op, tiler in npu.accelerator().target.tilers]
        ['nn.conv2d']

        Raises BackendError where it is no tiler, or there is no such operator or pattern."""
        where = f'{self._place}, tiler for "{op}"'
        if missing := [m for m in TILER_METHODS if not callable(getattr(tiler, m, None))]:
            raise BackendError(
                "backend-052",
                f"{type(tiler).__name__} is no tiler: it has no method {missing[0]}",
                where=where,
                why=f"a tiler answers {', '.join(TILER_METHODS)}",
                help="see docs/how-to/write-a-tiler.md; LeastTraffic may be inherited from",
            )
        if all(op != name for name, _, _ in self._registered.patterns):
            meaning(op, where, also=[name for name, _, _ in self._registered.patterns])
        self._registered.tilers.append((op, tiler))

    def register(self) -> None:
        """Makes the accelerator known in this process, under its name, before those that packages
        bring; again with other contents: the later one holds.
        Source: RFC 0060, "Using a Custom Backend".

        >>> class Npu(UMABackend):
        ...     target_name = "npu"
        >>> Npu().register()
        >>> "npu" in REGISTERED
        True
        >>> del REGISTERED["npu"]

        Raises BackendError where another class has registered that name."""
        self._check_name()
        other = REGISTERED.get(self.target_name)
        if other is not None and _identity(type(other)) != _identity(type(self)):
            raise name_clash(
                self.target_name, self._place, (_identity(type(other)), _identity(type(self)))
            )
        REGISTERED[self.target_name] = self

    def partition(
        self,
        graph: Graph,
        attributes: Mapping[str, object] | None = None,
        chip: Target | None = None,
    ) -> Graph:
        """The graph with what the accelerator claims as composites, after its graph passes.

        Whether there is an implementation for each is asked later, by the compiler.
        Source: RFC 0060, "Using a Custom Backend".

        >>> from penstock.backends.pattern import is_constant, is_op, wildcard
        >>> from penstock.zoo.registry import open_zoo
        >>> class Npu(UMABackend):
        ...     target_name = "npu"
        >>> npu = Npu()
        >>> npu._register_pattern("conv2d", is_op("nn.conv2d")(wildcard(), is_constant()))
        >>> [node.name for node in npu.partition(open_zoo("zoo:lenet5")).nodes[:4]]
        ['conv1', 'pool1', 'conv2', 'pool2']
        """
        graph, _ = claimed(graph, self.accelerator(attributes, chip))
        return graph

    def accelerator(
        self, attributes: Mapping[str, object] | None = None, chip: Target | None = None
    ) -> Accelerator:
        """The record that the compiler sees, with the attributes that a user set, beside a chip
        (the host, where none is given).

        Raises BackendError; UsageError where the attributes are not such as were registered."""
        self._check_name()
        chip = chip or load_target("host")
        self._check_engine(chip)
        own = self._registered
        name = self.target_name
        set_values = values(
            name, own.attributes, attributes or {}, f"accelerator {name}", own.least
        )
        memories = self._memories(set_values, chip)
        target = AcceleratorTarget(name, set_values, chip, memories, tuple(reversed(own.tilers)))
        return Accelerator(
            target,
            tuple(
                NamedPattern(label, pattern, judge and _on_nodes(judge, target))
                for label, pattern, judge in own.patterns
            ),
            tuple(strategy_record(s.op, s.function, s.level, own.roofline) for s in own.strategies),
            tuple(own.graph_passes),
            tuple(own.program_passes),
            tuple(_on_nodes(judge, target) for judge in own.constraints),
            self._codegen(target),
            own.merge_compiler_regions,
            tuple(self._open_choices(attributes or {}, chip)),
        )

    def _open_choices(self, given: Mapping[str, object], chip: Target) -> Iterator[OpenChoice]:
        """Every other combination of the attributes with choices that are not given."""
        own = self._registered
        names = [name for name in own.attributes if name not in given]
        for found in product(*(own.choices[name].items() for name in names)):
            changed = {
                name: (value, note)
                for name, (value, note) in zip(names, found, strict=True)
                if value != own.attributes[name]
            }
            if changed:
                attributes = {**given, **{name: value for name, (value, _) in changed.items()}}
                words = ",".join(f"{name}={value}" for name, value in attributes.items())
                note = ", ".join(note for _, note in changed.values() if note)
                text = f"{self.target_name}:{words}"
                yield OpenChoice(text, note, partial(self.accelerator, attributes, chip))

    @property
    def attributes(self) -> Mapping[str, Value]:
        """The attributes that were registered, with their defaults."""
        return dict(self._registered.attributes)

    @property
    def _place(self) -> str:
        """Where a mistake in the description stands."""
        return f"accelerator {self.target_name}, class {type(self).__name__}"

    def _check_name(self) -> None:
        name = cast(object, self.target_name)
        if not isinstance(name, str) or not re.fullmatch(r"[a-z_][a-z0-9_]*", name):
            raise BackendError(
                "backend-046",
                f"target_name is {name!r}, must be made of small letters, digits and _",
                where=f"class {type(self).__name__}",
                help='give the class a property target_name that returns such a name: "my_npu"',
            )

    def _check_engine(self, chip: Target) -> None:
        taken = {engine.name for engine in chip.engines} | {"caller"}
        if chip.copier is not None:
            taken.add(chip.copier.name)
        if self.target_name in taken:
            raise BackendError(
                "backend-051",
                f'"{self.target_name}" is the name of an engine of the chip',
                where=self._place,
                why=f"engines of {chip.name}: {', '.join(sorted(taken))}",
                help="give the accelerator another target_name",
            )

    def _check_pass(
        self, phase: PassPhase, function: object, phases: tuple[PassPhase, ...], noun: str
    ) -> None:
        where = f"{self._place}, pass {name_of(function)}"
        require_callable(function, "pass", f"{noun} and an AcceleratorTarget", where)
        if phase not in phases:
            raise BackendError(
                "backend-038",
                f"{phase} is no phase in which passes of {noun} run",
                where=where,
                help="take one of " + ", ".join(f"PassPhase.{p.name}" for p in phases),
            )

    def _read(self, sources: Files, where: str) -> tuple[tuple[str, str], ...]:
        """The files' names and contents."""
        if isinstance(sources, Mapping):
            return tuple(sources.items())
        names = (sources,) if isinstance(sources, str) else sources
        return tuple((name, self._read_file(name, where)) for name in names)

    def _read_file(self, name: str, where: str) -> str:
        """A file that lies beside the file of this class, or of one that it inherits from."""
        reason = "the class is in no file"
        for folder in _folders(type(self)):
            try:
                return (folder / name).read_text("utf-8")
            except (OSError, ValueError) as error:
                reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise BackendError(
            "backend-045",
            f'source file "{name}" cannot be read',
            where=where,
            why=reason,
            help="name files that lie beside the backend's own, or give {name: text}; a package "
            "must list them as package data",
        )

    def _codegen(self, target: AcceleratorTarget) -> Codegen:
        own = self._registered.codegen
        where = f"{self._place}, code generation"
        with authors_code("function includes", where):
            text: Any = own.includes() if callable(own.includes) else own.includes or ""
        if not isinstance(text, str):
            raise BackendError(
                "backend-047",
                f"includes is {text!r:.60}, must be C as a text",
                where=where,
                help="give the lines that include the driver's header, or a function that does",
            )
        sources = own.sources
        if callable(sources):
            with authors_code("function sources", where):
                files = sources(target)
            sources = self._read(files, where)
        return Codegen(own.fmt, text, own.replace_call_extern, own.encoder, own.submit, sources)


def registered() -> Mapping[str, UMABackend]:
    """What this process registered, by name."""
    return dict(REGISTERED)


def _memory_problem(memory: MemoryRegion) -> str:
    """What is wrong with a memory; nothing where all is right."""
    if type(memory.size_bytes) is not int or memory.size_bytes < 1:
        return "its size is no number of bytes above 0"
    if not is_figure(memory.bandwidth_bytes_per_cycle, ABOVE_0):
        return "its bandwidth is no number of bytes per cycle above 0"
    return "" if is_figure(memory.latency_cycles, 0) else "its latency is no number of cycles"


def name_clash(name: str, where: str, two: tuple[str, str]) -> BackendError:
    """The error about two accelerators of one name; `two`: where they are from."""
    return BackendError(
        "backend-048",
        f'two accelerators are called "{name}"',
        where=where,
        why=f"{two[0]} and {two[1]}",
        help="give one of them another target_name, or remove one of the packages",
    )


def _folders(backend: type[UMABackend]) -> Iterator[Path]:
    """Where the files of a class and of those that it inherits from lie."""
    for each in backend.__mro__:
        if issubclass(each, UMABackend) and each is not UMABackend:
            with suppress(OSError, TypeError):  # it was typed into an interpreter
                yield Path(inspect.getfile(each)).parent


def _identity(backend: type[UMABackend]) -> str:
    """By which a class is known that is defined anew, as in a notebook."""
    return f"{backend.__module__}.{backend.__qualname__}"


def _on_nodes(judge: Judge, target: AcceleratorTarget) -> Callable[[Node], bool | str]:
    """The judge as the compiler asks it: of a node, and with its own docstring."""

    def judged(node: Node) -> bool | str:
        return judge(Offloaded(node, target))

    functools.update_wrapper(judged, judge)
    judged.__name__ = name_of(judge)
    judged.__doc__ = inspect.getdoc(judge)
    return judged


def _given(encoder: object, submit: object) -> str:
    """What of a stream's parts is there."""
    parts = {"encoder": encoder, "submit": submit}
    there = [name for name, part in parts.items() if part is not None]
    return f"with {' and '.join(there)}" if there else "without encoder and submit"
