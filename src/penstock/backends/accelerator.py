"""Accelerator: a frozen record that describes an accelerator to the compiler.

A `UMABackend`, the class that the author of an accelerator writes, creates this record.
Source of the interface: TVM RFC 0060 (UMA).  Additions: memories, costs, constraints with reasons,
and functional models of driver functions, so that programs can run without the hardware.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from enum import Enum
from functools import partial
from typing import Any

from penstock.backends.pattern import Pattern
from penstock.brief import Brief
from penstock.frozen import frozen
from penstock.hardware.core_access import Trap
from penstock.hardware.target import MemoryRegion, Target, resized
from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Node
from penstock.ir.op import Kernel
from penstock.program.program import Command, Driver, Parts, Program
from penstock.scheduling.model.parts import CpuFallback as CpuFallback
from penstock.tiling.nest import Tiler

# The priority level of the processor's kernels; strategies of accelerators have 11 by default.
CORE_LEVEL = 10

Value = str | int | bool | float  # The value of an accelerator's attribute.


class PassPhase(Enum):
    """The point of the compilation at which an accelerator's pass runs.

    PRE_PARTITIONING: on the graph, before the accelerator's patterns are matched.
    POST_PARTITIONING_0, then POST_PARTITIONING_1: on the graph, after each match has become one
        composite node.
    PROGRAM_PHASE_0 (before stripes): on a program with one call for each node; each call computes a
        whole tensor, and addresses are provisional.  A pass may replace the kernels of the
        accelerator's calls: their bodies, tables, costs, scratch, and whether they run in stripes.
        A new body is a function (`Kernel.body`), because the commands depend on stripes and
        addresses.  If a composite has several kernels, the passes run once for each of them.
    PROGRAM_PHASE_1 (after stripes): on the program of a schedule, with loops over stripes and
        provisional addresses; the passes run for each schedule that is placed.  A pass may replace
        kernels by others of the same memory and cost: name, body, tables and traffic may differ.
    PROGRAM_PHASE_2 (after placement): on the program of the selected schedule, with addresses.  A
        pass may change the commands in the bodies of the accelerator's calls.  It may add constants
        and working memory (`with_constant`, `with_scratch`), and invocations of functions of its
        driver, outside loops.
    PROGRAM_PHASE_3 (before emission): on the program that is emitted, in which command streams are
        encoded.  A pass may change and add the same, and the bytes of its streams but not their
        sizes.

    Between PROGRAM_PHASE_2 and PROGRAM_PHASE_3, the compiler merges the calls of each compiler
    region, encodes command streams, and inserts driver calls that wait for the accelerator or, if
    the chip has several instances of it, select one.  So only passes of PROGRAM_PHASE_3 see merged
    calls; earlier ones see one call for each layer.

    It is an error if a program pass changes anything else.  Passes of one phase run in order of
    registration.  UMA's names are aliases: POST_PARTITIONING for POST_PARTITIONING_0, and
    TIR_PHASE_n for PROGRAM_PHASE_n."""

    PRE_PARTITIONING = "pre_partitioning"
    POST_PARTITIONING_0 = "post_partitioning_0"
    POST_PARTITIONING = "post_partitioning_0"
    POST_PARTITIONING_1 = "post_partitioning_1"
    PROGRAM_PHASE_0 = "program_phase_0"
    PROGRAM_PHASE_1 = "program_phase_1"
    PROGRAM_PHASE_2 = "program_phase_2"
    PROGRAM_PHASE_3 = "program_phase_3"
    TIR_PHASE_0 = "program_phase_0"
    TIR_PHASE_1 = "program_phase_1"
    TIR_PHASE_2 = "program_phase_2"
    TIR_PHASE_3 = "program_phase_3"


# The phases of program passes, in order.
PROGRAM_PHASES = (
    PassPhase.PROGRAM_PHASE_0,
    PassPhase.PROGRAM_PHASE_1,
    PassPhase.PROGRAM_PHASE_2,
    PassPhase.PROGRAM_PHASE_3,
)


@frozen(repr=False)
class AcceleratorTarget(Brief):
    """The properties of an accelerator that its passes and strategies receive.

    name: the name of the accelerator.
    attrs: the values of its attributes by name, as the user set them or by default.
    chip: the target chip to which the accelerator is attached.
    memories: the accelerator's own memories, by name.
    tilers: pairs of an operator or pattern name and its tiler, which divides layers into tiles that
        fit local memories.  The last registered pair comes first; the first pair that matches a
        layer applies."""

    name: str
    attrs: Mapping[str, Value]
    chip: Target
    memories: Mapping[str, MemoryRegion] = field(default_factory=dict)
    tilers: tuple[tuple[str, Tiler], ...] = ()

    @property
    def instances(self) -> int:
        """The number of instances of the accelerator on the chip, as the target file states it."""
        return dict(self.chip.instances).get(self.name, 1)


GraphPass = Callable[[Graph, AcceleratorTarget], Graph]
ProgramPass = Callable[[Program, AcceleratorTarget], Program]


@frozen
class NamedPattern:
    """A pattern of nodes that an accelerator can run, with its name and an optional predicate.

    predicate: a further condition on matches; None for no condition.  It receives a match as a
        composite, which is one node that stands for all matched nodes.  It returns True to
        accept the match, and False or a string with the reason to refuse it.  Messages quote the
        predicate's docstring.
    wide_weights: whether layers whose weights int8 does not hold match, too."""

    name: str
    pattern: Pattern
    predicate: Callable[[Node], bool | str] | None = None
    wide_weights: bool = False


@frozen
class Implementation:
    """A kernel that an accelerator provides for one composite (matched nodes as a single node).

    `condition`: True if the kernel can run the composite, else False or the reason as a string."""

    name: str
    kernel: Kernel
    condition: bool | str = True


# Returns the implementations for a composite, given its node, its operator and the target.
Choose = Callable[[Node, Composite, AcceleratorTarget], Sequence[Implementation]]


@frozen
class Strategy:
    """A function of a backend that returns the kernels of certain composites (matched sub-graphs).

    op: the name of an operator or pattern; the strategy applies to composites whose main operator
        or pattern has this name.
    choose: returns the implementations, which are kernels with conditions, for one such composite.
    level: the priority; higher levels are tried first."""

    op: str
    choose: Choose
    level: int


# Converts the commands of each call of a region, in order, to those of one call.
RegionFunction = Callable[[Sequence[Sequence[Command]]], Sequence[Command]]


@frozen
class RegionNumbers:
    """The numbers by which command streams refer to memory regions.

    constants: the number of the region with the constants of all streams, which is only read.
    memories: the numbers of the writable memories, in the order of the target."""

    constants: int
    memories: tuple[int, ...]


@frozen
class JoinedStreams:
    """How an accelerator executes several calls as one stream.

    encoder: converts the commands of calls to a stream.  It receives a sequence with the commands
        of each call, in order of execution, and returns the stream, and the offset in bytes at
        which the part of each call ends.
    parts: functional model that executes a stream in parts: a generator that yields after each
        call.  It receives the state of the accelerator, the bytes from the stream's first one on,
        the offset at which the part of each call ends, and what `submit` receives after the size.
    """

    encoder: Callable[..., tuple[bytes, tuple[int, ...]]]
    parts: Parts


@frozen
class StreamDriver:
    """A driver that receives command streams, and what it is told besides.

    submit: the function that receives a stream, its size in bytes, and addresses.
    regions: numbers of memory regions.  `submit` then receives a base address and a size in bytes
        for each number from 0 on, and the addresses in streams (`Place`) are offsets into these
        regions.  One of them contains the constants of all streams, the others are whole memories;
        their bases and sizes are multiples of the `cache_line_bytes` of the kernels.  A region that
        a stream does not use is (0, 0).
    is_status: True if `submit` returns a status.  In C, the run ends with an error unless it is 0.
    traps: functions of the driver's sources that a simulator of the processor executes in Python,
        by name.  A value returns the substitute for one program: a function of a CoreAccess,
        through which it reads the arguments in R0, R1, .., and sets R0 to the result.
    cmake: lines that the bundle's CMakeLists.txt contains for the driver.  "{prefix}" stands for
        the name of the model's library, "{PREFIX}" for the same in capital letters.
    joined: how consecutive calls run as one stream, also those of several iterations of loops; None
        if each call is a stream of its own."""

    submit: Driver
    regions: RegionNumbers | None = None
    is_status: bool = False
    traps: Mapping[str, Callable[[], Trap]] = field(default_factory=dict)
    cmake: str = ""
    joined: JoinedStreams | None = None


SourceFiles = tuple[tuple[str, str], ...]  # Pairs of a file name and the contents of the file.


@frozen(repr=False)
class Codegen(Brief):
    """How the commands of an accelerator are generated.

    fmt: "c" for C calls of driver functions, "stream" for command streams (`backends/stream.py`).
    includes: C text at the beginning of the model's C file, or a function that returns it for the
        program that is emitted.
    replace_call_extern: returns the C text of a driver call, given the C texts of its arguments.
        If it is None, the text is NAME(arguments).
    encoder: converts the commands of a kernel call to a command stream (bytes), for fmt "stream".
    driver: what receives the command stream, for fmt "stream".
    sources: (file name, contents) pairs: the driver's header and its implementation for
        simulation; or a function that returns them for the program that is emitted.
    region: merges the calls of a compiler region, which is a set of adjacent composites.  It
        receives a sequence with the commands of each call, and returns the commands of the single
        call that replaces them.  If it is None and fmt is "stream", the commands of all calls are
        concatenated in one stream; if it is None and fmt is "c", the calls remain separate.
    select: the driver function that selects an instance of the accelerator by its number.
    wait: the driver function that waits until the accelerator has executed all streams; None if
        `submit` waits."""

    fmt: str = "c"
    includes: str | Callable[[Program], str] = ""
    replace_call_extern: Callable[[Sequence[str]], str] | None = None
    encoder: Callable[..., bytes] | None = None
    driver: StreamDriver | None = None
    sources: SourceFiles | Callable[[Program], SourceFiles] = ()
    region: RegionFunction | None = None
    select: Driver | None = None
    wait: Driver | None = None

    def generated(self, program: Program) -> tuple[str, SourceFiles]:
        """Return the texts of `includes` and the files of `sources` for an emitted program."""
        text = self.includes(program) if callable(self.includes) else self.includes
        return text, self.sources(program) if callable(self.sources) else self.sources


@frozen
class OpenChoice:
    """An alternative to an accelerator: the same hardware with other attribute values.

    Only attributes that the user did not set have other values.

    text: the value of the option --accelerator that selects the alternative, such as
        "npu:memory_mode=sram_only".
    note: a remark about the alternative that messages show to users; "" for none.
    make: returns the alternative.
    is_searched: whether the search compares the alternative's schedules with the accelerator's."""

    text: str
    note: str
    make: Callable[[], Accelerator]
    is_searched: bool = False


@frozen(repr=False)
class Accelerator(Brief):
    """An accelerator as the compiler sees it, with given values of its attributes.

    target: its name, attribute values, chip and memories.
    patterns: the sub-graphs that the accelerator supports.
    strategies: functions that return kernels for matched sub-graphs (composites).
    graph_passes, program_passes: passes, each with its phase.
    constraints: predicates on every match; they return True, False, or the reason to refuse the
        match.
    codegen: how the compiler turns the accelerator's commands into C code or command streams.
    merge_compiler_regions: whether adjacent composites form a compiler region, whose calls may
        be merged into one (`driver_calls.py`); if False, every composite is a region of its own.
    open_choices: alternatives that messages propose if a network does not fit into memory."""

    target: AcceleratorTarget
    patterns: tuple[NamedPattern, ...]
    strategies: tuple[Strategy, ...]
    graph_passes: tuple[tuple[PassPhase, GraphPass], ...]
    program_passes: tuple[tuple[PassPhase, ProgramPass], ...]
    constraints: tuple[Callable[[Node], bool | str], ...]
    codegen: Codegen
    merge_compiler_regions: bool = True
    open_choices: tuple[OpenChoice, ...] = field(default=(), compare=False)

    @property
    def name(self) -> str:
        """The name of the accelerator."""
        return self.target.name

    @property
    def arenas(self) -> tuple[MemoryRegion, ...]:
        """The accelerator's own memories that can hold tensors from one call to the next.

        A backend registers them with `holds=("arena", ...)`.  They are not the arena in RAM."""
        return tuple(m for m in self.target.memories.values() if "arena" in m.holds)

    @property
    def with_separate_calls(self) -> Accelerator:
        """The accelerator with each call by itself: neither those of a compiler region nor streams
        are joined."""
        driver = self.codegen.driver and replace(self.codegen.driver, joined=None)
        codegen = replace(self.codegen, driver=driver)
        return replace(self, merge_compiler_regions=False, codegen=codegen)

    def resized(self, sizes_bytes: Mapping[str, int]) -> Accelerator:
        """Return a copy of the accelerator in which some of its own memories have new sizes.

        sizes_bytes: the new size of each memory to be changed, by its name.  Only the memories in
            `arenas`, which hold tensors between calls, can be changed."""
        arenas = {memory.name: memory for memory in resized(self.arenas, sizes_bytes)}
        target = replace(self.target, memories={**self.target.memories, **arenas})
        choices = tuple(
            replace(choice, make=partial(_resized, choice.make, sizes_bytes))
            for choice in self.open_choices
        )
        return replace(self, target=target, open_choices=choices)

    def passes(self, phase: PassPhase) -> tuple[Callable[[Any, AcceleratorTarget], Any], ...]:
        """Return the passes of a phase in order of registration."""
        every = (*self.graph_passes, *self.program_passes)
        return tuple(run for when, run in every if when is phase)


def _resized(make: Callable[[], Accelerator], sizes_bytes: Mapping[str, int]) -> Accelerator:
    return make().resized(sizes_bytes)
