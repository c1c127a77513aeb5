"""Parser of frontiers and schedules; the docstring of `printer.py` describes the syntax.

The text states only the width of bands (intervals of columns); they are built from it.  It also
states the stripes of the tensors of each plan, which must equal those that the plan determines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TypeVar

from penstock.ir.text.printer import Labels
from penstock.quoting import quoted
from penstock.scheduling.bands.band_schedule import (
    BandSource,
    can_run_in_bands,
    plan_configs,
    with_bands,
)
from penstock.scheduling.model.bands import Bands
from penstock.scheduling.model.cost import NOTHING, Cost
from penstock.scheduling.model.memories import MemoryAssignment
from penstock.scheduling.model.parts import FusedPart, Parts, with_fused
from penstock.scheduling.model.plan import BufferMode, Chain, Plan, Prefetch, PrefetchStart
from penstock.scheduling.model.schedule import Frontier, Gaps, Schedule
from penstock.scheduling.model.stripe import StripeConfig, Stripes
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule
from texts.scanner import Scanner, Token, TokenKind
from texts.values import AttributeReader, Classes, ConstantReader, LabelReader


def read_frontier(text: str, parts: Parts, bands: BandSource | None = None) -> Frontier:
    """Parse the text of a frontier.

    parts: the parts to which the text refers by name (result of the stage `assign`).
    bands: creates the bands (intervals of columns) of a cascade; None: a frontier with cascades in
        bands is rejected.

    Raises ModelError if the text is malformed or contradicts the parts.
    """
    scanner = Scanner(text)
    scanner.skip_newlines()
    scanner.expect_word("frontier")
    if scanner.accept_word("of"):
        at = scanner.peek()
        if scanner.name() != parts.graph.name:
            raise scanner.contradiction(f"the parts are of {quoted(parts.graph.name)}", at=at)
    scanner.end_statement()
    found = [*ScheduleReader(scanner, parts, bands).schedules()]
    while scanner.accept_word("alternative"):
        alternative = _alternative(scanner, parts)
        scanner.end_statement()
        found += ScheduleReader(scanner, alternative, bands).schedules()
        found.sort(key=lambda schedule: schedule.peak_bytes)
    if not scanner.at_end:
        raise scanner.unexpected('"alternative", "cost", "plan" or "schedule"')
    return Frontier(tuple(found))


def _alternative(scanner: Scanner, parts: Parts) -> Parts:
    """Parse the number of an alternative graph and return the parts of this graph.

    parts: the parts of the network's own graph; `parts.alternatives[k]` has number k + 1.

    Raises ModelError if there is no alternative with this number.
    """
    at = scanner.peek()
    number = scanner.integer()
    if not 1 <= number <= len(parts.alternatives):
        count = len(parts.alternatives)
        raise scanner.contradiction(f"the parts have {count} alternatives, not {number}", at=at)
    return parts.alternatives[number - 1]


_T = TypeVar("_T")
_STATEMENTS = (
    "cost", "plan", "stripes", "schedule", "memory", "keep_inputs", "updating",
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
            parts, plans, bands = self._bands.with_bands(read, at)
            bare = Schedule(
                parts,
                plans,
                memory,
                state.keep_inputs,
                peak,
                gaps,
                state.updating,
                bands,
                self._parts if parts is not self._parts else None,
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
        whole_requests = scanner.accept_word("requests")
        scratch = scanner.integer() if scanner.accept_word("scratch") else 0
        in_tiles = scanner.accept_word("tiles")
        columns = scanner.integer() if not nearest and scanner.accept_word("columns") else None
        chains: list[Chain] = []
        while columns is None and scanner.accept_word("chain"):
            inside = tuple(self._part_list())
            scanner.expect_word("columns")
            columns_of_band = scanner.integer()
            chains.append(Chain(inside, columns_of_band, scanner.accept_word("kept")))
        prefetches: list[Prefetch] = []
        while scanner.accept_word("prefetch"):
            prefetches.append(self._prefetch())
        costs = self._names() if scanner.accept_word("cost") else []
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
                scratch,
                sum(found(waiting), NOTHING),
                columns=columns,
                chains=tuple(chains),
                in_tiles=in_tiles,
                whole_requests=whole_requests,
            )
            return ReadPlan(plan, first)

        return cache(plan)

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

    def _prefetch(self) -> Prefetch:
        """Parse a prefetch such as `conv2 "weights" from flash to sram 64 bytes early`.

        The accelerator of the part conv2 copies the first 64 bytes of its constant table "weights".
        With "early", the copy starts in the previous cascade, else in the cascade that reads it.

        Raises ModelError if no kernel of the part reads such a copy.
        """
        scanner = self._scanner
        at = scanner.peek()
        k = self._part()
        table = scanner.string()
        scanner.expect_word("from")
        source = scanner.name()
        scanner.expect_word("to")
        target = scanner.name()
        size = scanner.integer()
        scanner.expect_word("bytes")
        early = scanner.accept_word("early")
        start = PrefetchStart.PREVIOUS_CASCADE if early else PrefetchStart.OWN_CASCADE
        for kernel in self._parts.parts[k].prefetching:
            copy = kernel.prefetch
            if copy is not None and (copy.table, copy.size_bytes) == (table, size):
                return Prefetch(k, copy, source, target, start)
        text = f"{at} prefetches no {size} bytes of {quoted(table)}"
        raise scanner.contradiction(text, at=at)


@dataclass(frozen=True, slots=True)
class _State:
    """Settings of a schedule that the text states once, for all schedules that follow.

    memory: None before the first line `memory`, which must precede all schedules.
    keep_inputs: whether the network's inputs must not be overwritten.
    updating: cost of each update of a state; updates run after all plans.
    """

    memory: MemoryAssignment | None = None
    keep_inputs: bool = False
    updating: tuple[Cost, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """A plan that has been parsed from the text of a frontier or schedule.

    at: token of the name of the plan's first part, for error messages.
    """

    plan: Plan
    at: Token


@dataclass(frozen=True, slots=True)
class BandReader:
    """Builds the bands of the plans that a frontier or schedule states in text form.

    scanner: creates the errors.
    parts: the parts to which the plans refer by name.
    source: creates the bands of a cascade; None: plans in bands are rejected.
    _known: bands created so far, by plan without costs.
    """

    scanner: Scanner
    parts: Parts
    source: BandSource | None
    _known: dict[Plan, tuple[Bands, ...]] = field(default_factory=dict[Plan, tuple[Bands, ...]])

    def with_bands(
        self, plans: Sequence[ReadPlan], at: Token
    ) -> tuple[Parts, tuple[Plan, ...], tuple[Bands, ...]]:
        """Replace each cascade or chain in bands, and each group in tiles, by a single part.

        plans: the plans of a schedule, in execution order.
        at: token of the schedule in the text, for error messages.

        Returns (parts, plans, bands): the parts after the replacement, the plans with indices of
        these parts, and the bands of each part that runs in bands.

        Raises ModelError if a cascade or chain cannot run in its bands or a group in tiles, if
        there are bands or tiles but `self.source` is None, or if a schedule with bands contains a
        part twice.
        """
        bare = tuple(read.plan for read in plans)
        if any(plan.in_tiles for plan in bare):
            return (*self._with_fused(plans), ())
        if not any(plan.in_bands for plan in bare):
            return self.parts, bare, ()
        counts = Counter(k for plan in bare for k in plan.parts)
        for k, count in counts.items():
            if count > 1:
                name = quoted(self.parts.parts[k].name)
                raise self.scanner.contradiction(f"the schedule runs {name} {count} times", at=at)
        cascades = [self._banded(read) for read in plans]
        return with_bands(self.parts, tuple(zip(bare, cascades, strict=True)))

    def _with_fused(self, plans: Sequence[ReadPlan]) -> tuple[Parts, tuple[Plan, ...]]:
        """Replace each group in tiles by a single part; return (parts, plans).

        Raises ModelError if no accelerator can run such a group, or if `self.source` is None.
        """
        groups: list[tuple[tuple[int, ...], FusedPart]] = []
        for read in plans:
            members = read.plan.parts
            if read.plan.in_tiles:
                fused = self.source.fused(self.parts, members) if self.source else None
                if fused is None:
                    text = f"the plan that begins with {read.at} cannot run in tiles on this target"
                    raise self.scanner.contradiction(text, at=read.at)
                groups.append((members, fused))
        found = with_fused(self.parts, groups)
        renumbered = (
            replace(
                read.plan,
                parts=tuple(dict.fromkeys(found.index[k] for k in read.plan.parts)),
                in_tiles=False,
            )
            for read in plans
        )
        return found.parts, tuple(renumbered)

    def _banded(self, read: ReadPlan) -> tuple[Bands, ...]:
        """Return the bands of a plan or of each of its chains; empty if the plan has no bands.

        Raises ModelError if the cascade or a chain cannot run in bands of the stated width, or if
        the plan has bands but `self.source` is None.
        """
        stated = read.plan.bare
        if not stated.in_bands:
            return ()
        if stated in self._known:
            return self._known[stated]
        plan = f"the plan that begins with {read.at}"
        if self.source is None:
            text = f"{plan} runs in bands of columns, which depend on the target"
            raise self.scanner.contradiction(text, at=read.at)
        found = None
        if _is_possible(self.parts, stated):
            found = self.source.bands(self.parts, stated)
        if found is None:
            stripe = stated.stripe
            rows = "" if stripe is None else f" and stripes of {stripe} rows"
            widths = (stated.columns, *(chain.columns for chain in stated.chains))
            columns = ", ".join(str(width) for width in widths if width is not None)
            text = f"{plan} cannot run in bands of {columns} columns{rows}"
            raise self.scanner.contradiction(text, at=read.at)
        self._known[stated] = found
        return found

    def costed(self, schedule: Schedule) -> Schedule:
        """Return a schedule with costs in the plans of its chains' bands; the text leaves them out.

        The schedule is unchanged if `self.source` is None.
        """
        return schedule if self.source is None else self.source.costed(schedule)


def _is_possible(parts: Parts, plan: Plan) -> bool:
    """Return whether a plan meets the necessary conditions for its bands, or for its chains.

    A chain must have at least two parts, all of them in the cascade, and no part may be in two
    chains.  `can_run_in_bands` checks the other conditions.
    """
    if plan.columns is not None:
        return can_run_in_bands(parts, plan.parts, plan.columns, plan.stripe)
    inside = [k for chain in plan.chains for k in chain.parts]
    return (
        len(inside) == len(set(inside))
        and set(inside) <= set(plan.parts)
        and all(
            len(chain.parts) > 1
            and can_run_in_bands(parts, chain.parts, chain.columns, plan.stripe)
            for chain in plan.chains
        )
    )


MODES = tuple(mode.value for mode in BufferMode if mode is not BufferMode.DOUBLE)
"""Names of the buffer modes: how much of a tensor is in memory while its cascade runs."""


@dataclass(frozen=True, slots=True)
class ReadStripes:
    """The contents of a line `stripes`: the stripes of a tensor in a plan.

    tensor: name of the tensor.
    at: token of this name, for error messages.
    """

    tensor: str
    mode: BufferMode
    stripes: Stripes
    at: Token


@dataclass(frozen=True, slots=True)
class StripeReader:
    """Compares the stripes that the text of a schedule states with those that its plans determine.

    _stated: the stripes that the text states, by name of the plan.
    _checked: names of the plans that have been compared.
    """

    scanner: Scanner
    _stated: dict[str, list[ReadStripes]] = field(default_factory=dict[str, list[ReadStripes]])
    _checked: set[str] = field(default_factory=set[str])

    def add(self, plan: str, stated: ReadStripes) -> None:
        """Add the contents of one line `stripes`, to be compared by `check`.

        plan: name of the plan in the text.
        """
        self._stated.setdefault(plan, []).append(stated)

    def check(self, schedule: Schedule, plans: Sequence[str]) -> None:
        """Compare the stripes of the plans of a schedule with those that the text states.

        Plans for which the text states no stripes, or that have been compared before, are skipped.
        plans: the names of the schedule's plans in the text, in execution order.

        Raises ModelError if the stripes or the buffer mode of a tensor differ, or if a plan does
        not compute the tensor.
        """
        if self._stated.keys().isdisjoint(plans):
            return
        expanded = ExpandedSchedule(schedule)
        for plan, cascade in zip(plans, expanded.cascades, strict=True):
            if plan not in self._stated or plan in self._checked:
                continue
            self._checked.add(plan)
            known = {config.tensor: config for config in plan_configs(expanded, cascade)}
            for stated in self._stated[plan]:
                found = known.get(stated.tensor)
                if found is None or (found.mode, found.stripes) != (stated.mode, stated.stripes):
                    others = "does not compute it" if found is None else "has other stripes of it"
                    text = f"the plan {quoted(plan)} {others}"
                    raise self.scanner.contradiction(text, at=stated.at)
