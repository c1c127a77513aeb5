"""Parser of schedules; the docstring of the module `frontier` describes the syntax."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeVar

from penstock.ir.text.attributes import AttributeReader, Classes, ConstantReader
from penstock.ir.text.labels import LabelReader, Labels
from penstock.scanner import Scanner, Token, TokenKind
from penstock.scheduling.bands.variant import AssignedPlan, BandSource
from penstock.scheduling.cascades.proposals import Chain
from penstock.scheduling.model.cost import NOTHING, Cost
from penstock.scheduling.model.memories import MemoryAssignment
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.plan import BufferMode, Plan
from penstock.scheduling.model.prefetch import AcceleratorCopy, Prefetch, PrefetchStart
from penstock.scheduling.model.row_copy import RowCopy
from penstock.scheduling.model.schedule import Gaps, Schedule
from penstock.scheduling.model.stripe import StripeConfig
from penstock.scheduling.row_copies.conditions import copyable
from penstock.scheduling.row_copies.variant import with_row_copies
from penstock.scheduling.text.band_reader import BandReader, ReadPlan
from penstock.scheduling.text.stripe_reader import MODES, ReadStripes, StripeReader

_T = TypeVar("_T")
_STATEMENTS = (
    "cost", "plan", "stripes", "schedule", "memory", "copier", "keep_inputs", "updating",
)  # fmt: skip
_CLASSES: Classes = {found.__name__: found for found in (Cost, MemoryAssignment, StripeConfig)}


class ScheduleReader:
    """Parses the lines about schedules, plans, costs and settings in the text of a frontier.

    Each line begins with a keyword, such as `plan`; parsing stops at the first line without one.
    parts: the parts to which the lines refer by name (result of the stage `assign`).
    bands: creates the bands (intervals of columns) of a cascade; None: cascades in bands are
        rejected.
    """

    def __init__(self, scanner: Scanner, parts: Parts, bands: BandSource | None = None) -> None:
        self._scanner = scanner
        self._parts = parts
        self._bands = BandReader(scanner, parts, bands)
        self._stripes = StripeReader(scanner)
        self._costs: dict[str, Cost] = {}
        self._plans: dict[str, Callable[[], ReadPlan]] = {}
        self._numbers: Mapping[str, int] = {part.name: k for k, part in enumerate(parts.parts)}
        handles = Labels.of(parts.graph).handles
        self.labels = LabelReader(scanner, {handle: name for name, handle in handles.items()})
        self._attributes = AttributeReader(scanner, _CLASSES, ConstantReader(scanner, {}))

    def schedules(self) -> tuple[Schedule, ...]:
        """Parse the lines about schedules and return the schedules.

        A schedule may refer to plans and costs that are declared after it.
        """
        scanner = self._scanner
        found: list[Callable[[], Schedule]] = []
        state = _State()
        while scanner.is_word(*_STATEMENTS):
            match scanner.take().text:
                case "cost":
                    name = self._new(self._costs)
                    scanner.expect("=")
                    self._costs[name] = self._record(Cost)
                case "plan":
                    name = self._new(self._plans)
                    scanner.expect(":")
                    self._plans[name] = self._plan()
                case "stripes":
                    self._read_stripes()
                case "memory":
                    state = replace(state, memory=self._record(MemoryAssignment))
                case "copier":
                    state = replace(state, copier=scanner.name())
                case "keep_inputs":
                    word = scanner.expect_word("true", "false")
                    state = replace(state, keep_inputs=word == "true")
                case "updating":
                    state = replace(state, updating=self._record(tuple))
                case _:
                    found.append(self._schedule(state))
            scanner.end_statement()
        return tuple(schedule() for schedule in found)

    def _new(self, known: Mapping[str, object]) -> str:
        """Parse the name of a new plan or cost and return it.

        known: the names declared so far, as keys.

        Raises ModelError if the name is one of them.
        """
        at = self._scanner.peek()
        name = self._scanner.name()
        if name in known:
            raise self._scanner.error(f"{at} is declared twice", at=at)
        return name

    def _record(self, kind: type[_T]) -> _T:
        """Parse a value such as "Cost(cycles=7)", and return it as an object of class `kind`.

        Raises ModelError if the value is of another class.
        """
        at = self._scanner.peek()
        found = self._attributes.attribute()
        if not isinstance(found, kind):
            raise self._scanner.error(f"expected {kind.__name__}, found {at}", at=at)
        return found

    def _schedule(self, state: _State) -> Callable[[], Schedule]:
        """Parse a schedule and return a function that builds it.

        Call the function when all plans have been parsed, since the text declares them later.
        state: the settings that apply to the schedule.
        """
        scanner = self._scanner
        memory = state.memory
        if memory is None:
            raise scanner.error('a line "memory .." must stand before a schedule')
        peak = scanner.integer()
        scanner.expect_word("bytes")
        at = scanner.peek()
        cycles = scanner.integer()
        scanner.expect_word("cycles")
        order_gap = scanner.number() if scanner.accept_word("order_gap") else 0.0
        partition_gap = scanner.number() if scanner.accept_word("partition_gap") else 0.0
        gaps = Gaps(order_gap, partition_gap)
        scanner.expect("=")
        names = self._names() if scanner.peek().kind is TokenKind.NAME else []

        def schedule() -> Schedule:
            read = [self._find(self._plans, name)() for name in names]
            parts, plans, bands = self._bands.with_bands(read, memory, at)
            rings: tuple[tuple[str, str], ...] = ()
            if any(plan.row_copies for plan in plans):
                if bands or state.copier is None:
                    where = "without a copy engine" if state.copier is None else "beside bands"
                    raise scanner.contradiction(f"the schedule copies rows {where}", at=at)
                variant = with_row_copies(parts, plans, state.copier)
                parts, plans, rings = variant.parts, variant.plans, variant.regions
            bare = Schedule(
                parts,
                plans,
                memory.extended(rings),
                state.copier,
                state.keep_inputs,
                peak,
                gaps,
                state.updating,
                bands,
                self._parts if parts is not self._parts and not rings else None,
            )
            found = self._bands.costed(bare)
            if (total := found.cost.cycles) != cycles:
                text = f"the plans take {total} cycles, the schedule says {cycles}"
                raise scanner.contradiction(text, at=at)
            self._stripes.check(found, [name.text for name in names])
            return found

        return schedule

    def _names(self) -> list[Token]:
        """Parse a comma-separated list of names and return their tokens."""
        found: list[Token] = []
        while not found or self._scanner.accept(","):
            found.append(self._scanner.peek())
            self._scanner.name()
        return found

    def _find(self, known: Mapping[str, _T], at: Token) -> _T:
        """Return the entry of `known` whose name is the text of the token `at`.

        Raises ModelError if there is none.
        """
        if at.text not in known:
            raise self._scanner.unknown(f"{at} is not declared", at=at)
        return known[at.text]

    def _part(self) -> int:
        """Parse the label of a part and return its index in `Parts.parts`.

        A label is the name of the part or its handle, such as "%0": a short form that the graph's
        text declares for names that are long or need quotes.
        """
        at = self._scanner.peek()
        name = self.labels.name()
        if name not in self._numbers:
            raise self._scanner.unknown(f"{at} is no part", at=at)
        return self._numbers[name]

    def _part_list(self) -> list[int]:
        """Parse a comma-separated list of labels of parts and return the indices of the parts."""
        found = [self._part()]
        while self._scanner.accept(","):
            found.append(self._part())
        return found

    def _plan(self) -> Callable[[], ReadPlan]:
        """Parse a plan and return a function that builds it.

        Call the function when all costs have been parsed, since the text declares them later.
        """
        scanner = self._scanner
        first = scanner.peek()
        parts = self._part_list()
        stripe = scanner.integer() if scanner.accept_word("stripe") else None
        nearest = scanner.accept_word("nearest")
        scratch = scanner.integer() if scanner.accept_word("scratch") else 0
        in_tiles = scanner.accept_word("tiles")
        columns = scanner.integer() if not nearest and scanner.accept_word("columns") else None
        chains: list[Chain] = []
        while columns is None and scanner.accept_word("chain"):
            inside = tuple(self._part_list())
            scanner.expect_word("columns")
            columns_of_band = scanner.integer()
            chains.append(Chain(inside, columns_of_band, scanner.accept_word("kept")))
        row_copies: list[tuple[RowCopy, Token]] = []
        while scanner.accept_word("rows"):
            copy, at = self._row_copy()
            if row_copies and row_copies[-1][0].out > copy.out:
                raise scanner.contradiction(f"the copy of {at} follows a copy from a ring", at=at)
            row_copies.append((copy, at))
        prefetches: list[Prefetch] = []
        while scanner.accept_word("copy"):
            prefetches.append(self._copy())
        while scanner.accept_word("prefetch"):
            prefetches.append(self._accelerator_prefetch())
        costs = self._names() if scanner.accept_word("cost") else []
        copying = self._names()[:1] if scanner.accept_word("copying") else []
        waiting = self._names()[:1] if scanner.accept_word("waiting") else []

        def found(names: list[Token]) -> tuple[Cost, ...]:
            return tuple(self._find(self._costs, name) for name in names)

        def plan() -> ReadPlan:
            plan = Plan(
                tuple(parts),
                stripe,
                nearest,
                found(costs),
                tuple(prefetches),
                sum(found(copying), NOTHING),
                scratch,
                sum(found(waiting), NOTHING),
                row_copies=tuple(copy for copy, _ in row_copies),
            )
            for copy, at in row_copies:
                if plan.stripe is None or not copyable(self._parts, plan.parts, copy):
                    verb = "write" if copy.out else "read"
                    text = f"the cascade cannot {verb} {at} through copies of its rows"
                    raise scanner.contradiction(text, at=at)
            return ReadPlan(AssignedPlan(plan, columns, tuple(chains), in_tiles), first)

        return cache(plan)

    def _row_copy(self) -> tuple[RowCopy, Token]:
        """Parse a row copy, such as "x to dtcm overlapped"; return it and its tensor's token."""
        scanner = self._scanner
        at = scanner.peek()
        tensor = self.labels.name()
        out = scanner.expect_word("to", "from") == "from"
        region = scanner.name()
        return RowCopy(tensor, region, out or scanner.accept_word("overlapped"), out), at

    def _read_stripes(self) -> None:
        """Parse a line such as "stripes p0 conv1 rolling = (StripeConfig(..),)", without "stripes".

        The line is recorded in `self._stripes`, a `StripeReader`.  After the schedule has been
        read, this checks that the stripes are those that the plan determines.
        """
        scanner = self._scanner
        plan, at = scanner.name(), scanner.peek()
        tensor = self._parts.parts[self._part()].name
        mode = BufferMode(scanner.expect_word(*MODES))
        scanner.expect("=")
        self._stripes.add(plan, ReadStripes(tensor, mode, self._record(tuple), at))

    def _copy(self) -> Prefetch:
        """Parse a prefetch by the copy engine, such as "w from flash to dtcm 64 bytes early".

        In the example, the copy engine copies 64 bytes, and "early" is `Prefetch.early`.
        """
        return self._transfer(self.labels.name())

    def _accelerator_prefetch(self) -> Prefetch:
        """Parse a prefetch such as `conv2 "weights" from flash to sram 64 bytes`.

        The accelerator of the part conv2 copies the first 64 bytes of its constant table "weights".

        Raises ModelError if no kernel of the part reads such a copy.
        """
        scanner = self._scanner
        at = scanner.peek()
        k = self._part()
        found = self._transfer(scanner.string())
        wanted = found.constant, found.size_bytes
        every = (kernel.prefetch for kernel in self._parts.parts[k].prefetching)
        for prefetch in every:
            if prefetch is not None and (prefetch.table, prefetch.size_bytes) == wanted:
                return replace(found, accelerator=AcceleratorCopy(k, prefetch))
        table = f'{found.size_bytes} bytes of "{found.constant}"'
        raise scanner.contradiction(f"{at} prefetches no {table}", at=at)

    def _transfer(self, constant: str) -> Prefetch:
        """Parse the rest of a prefetch, such as "from flash to sram 64 bytes early".

        With "early", the copy starts in the previous cascade, else in the cascade that reads it.

        constant: name of the copied constant or table, which the caller has parsed.
        """
        scanner = self._scanner
        scanner.expect_word("from")
        source = scanner.name()
        scanner.expect_word("to")
        target = scanner.name()
        size = scanner.integer()
        scanner.expect_word("bytes")
        early = scanner.accept_word("early")
        start = PrefetchStart.PREVIOUS_CASCADE if early else PrefetchStart.OWN_CASCADE
        return Prefetch(constant, size, source, target, start)


@dataclass(frozen=True, slots=True)
class _State:
    """Settings of a schedule that the text states once, for all schedules that follow.

    memory: None before the first line `memory`, which must precede all schedules.
    copier: name of the copy engine; None if the target has none.
    keep_inputs: whether the network's inputs must not be overwritten.
    updating: cost of each update of a state; updates run after all plans.
    """

    memory: MemoryAssignment | None = None
    copier: str | None = None
    keep_inputs: bool = False
    updating: tuple[Cost, ...] = ()
