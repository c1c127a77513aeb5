"""Text of a frontier: a table of its schedules, then the plans and costs that they refer to.

    frontier of lenet5
    memory MemoryAssignment(default="sram", constants="flash")
    schedule 2020 bytes 1300369 cycles = p0, p1, p2
    ..
    plan p0: conv1, pool1 stripe 2 scratch 352 cost c0, c1
    plan p1: dense1 cost c2
    ..
    cost c0 = Cost(cycles=651244, calls=14, macs=117600, read_bytes=(("flash", 2436), ..), ..)

A plan lists its parts in execution order.  Clauses that may follow the parts:

    stripe N                              maximum number of rows per call; default: all rows
    nearest                               `Plan.nearest_first` is True: it selects which input is
                                          produced first where several inputs of a part lack rows
    scratch N                             scratch memory in bytes
    copy w from flash to dtcm 64 bytes early
                                          prefetch of the constant w by the copy engine; it starts
                                          in the previous plan (`early`) or in this one
    prefetch conv2 "weights" from flash to sram 64 bytes early
                                          prefetch of the constant table "weights" of the part
                                          conv2 by its accelerator
    cost c0, c1  copying c2  waiting c3   costs of each part, of copies, and of stalls

The lines `memory`, `copier`, `keep_inputs`, `gaps` and `updating` (costs of updates of states)
apply to all schedules that follow.  Parsing requires the parts, since the text only names them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TypeVar

from penstock.ir.text.attributes import AttributeReader, Classes, attribute
from penstock.ir.text.constants import ConstantReader, ConstantTable
from penstock.ir.text.labels import LabelReader, Labels
from penstock.scanner import Scanner, Token, TokenKind, name_or_string, quoted
from penstock.scheduling.model.cost import NOTHING, Cost
from penstock.scheduling.model.memory_assignment import MemoryAssignment
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.plan import Plan
from penstock.scheduling.model.prefetch import AcceleratorCopy, Prefetch, PrefetchStart
from penstock.scheduling.model.schedule import Frontier, Gaps, Schedule

_T = TypeVar("_T")
_NO_GAPS = Gaps(0.0, 0.0)
_STATEMENTS = ("cost", "plan", "schedule", "memory", "copier", "keep_inputs", "gaps", "updating")
_CLASSES: Classes = {found.__name__: found for found in (Cost, MemoryAssignment, Gaps)}


def print_frontier(frontier: Frontier) -> str:
    """Return a frontier as text; only the word "frontier" if it has no schedules."""
    if not frontier.schedules:
        return "frontier\n"
    name = name_or_string(frontier.schedules[0].parts.graph.name)
    return f"frontier of {name}\n{print_schedules(frontier.schedules)}"


def print_schedules(schedules: Iterable[Schedule]) -> str:
    """Return schedules as text, then their plans and costs, one per line.

    All schedules must have the same parts.
    """
    return "".join(f"{line}\n" for line in _Printer().lines(tuple(schedules)))


def read_frontier(text: str, parts: Parts) -> Frontier:
    """Parse the text of a frontier.

    parts: the parts of the graph, to which the text refers by name.

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
    schedules = ScheduleReader(scanner, parts).schedules()
    if not scanner.at_end:
        raise scanner.unexpected('"cost", "plan" or "schedule"')
    return Frontier(schedules)


@dataclass
class _Printer:
    """Prints schedules, then the plans and costs to which they refer by name.

    costs: the name of each cost, such as "c0".
    plans: the name of each plan, such as "p0".
    table: constants that occur in the text.
    """

    costs: dict[Cost, str] = field(default_factory=dict[Cost, str])
    plans: dict[Plan, str] = field(default_factory=dict[Plan, str])
    table: ConstantTable = field(default_factory=ConstantTable)

    def lines(self, schedules: tuple[Schedule, ...]) -> Iterator[str]:
        if not schedules:
            return
        parts = schedules[0].parts
        labels = Labels.of(parts.graph)
        for plan in (plan for schedule in schedules for plan in schedule.plans):
            self.plans.setdefault(plan, f"p{len(self.plans)}")
        state: tuple[str, ...] = ()
        for schedule in schedules:
            found = tuple(self._state(schedule))
            yield from (line for line in found if line not in state)
            state = found
            plans = ", ".join(self.plans[plan] for plan in schedule.plans)
            cycles = f"{schedule.cost.cycles} cycles"
            yield f"schedule {schedule.peak_bytes} bytes {cycles} = {plans}".rstrip()
        for plan, name in self.plans.items():
            names = ", ".join(labels(parts.parts[k].name) for k in plan.parts)
            yield " ".join((f"plan {name}: {names}", *self._clauses(plan, parts, labels)))
        for cost, name in self.costs.items():
            yield f"cost {name} = {attribute(cost, self.table)}"

    def _state(self, schedule: Schedule) -> Iterator[str]:
        """Yield the lines `memory`, `copier`, `keep_inputs`, `gaps` and `updating` for a schedule.

        In the text, these lines apply to all schedules that follow.
        """
        yield f"memory {attribute(schedule.memory, self.table)}"
        if schedule.copier is not None:
            yield f"copier {name_or_string(schedule.copier)}"
        yield f"keep_inputs {attribute(schedule.keep_inputs, self.table)}"
        yield f"gaps {attribute(schedule.gaps, self.table)}"
        if schedule.updating:
            yield f"updating {attribute(schedule.updating, self.table)}"

    def _clauses(self, plan: Plan, parts: Parts, labels: Labels) -> Iterator[str]:
        if plan.stripe is not None:
            yield f"stripe {plan.stripe}"
        if plan.nearest_first:
            yield "nearest"
        if plan.scratch_bytes:
            yield f"scratch {plan.scratch_bytes}"
        for prefetch in plan.copies:
            yield f"copy {labels(prefetch.constant)} {_transfer(prefetch)}"
        for prefetch, copy in plan.accelerator_prefetches:
            part = labels(parts.parts[copy.part].name)
            yield f"prefetch {part} {quoted(prefetch.constant)} {_transfer(prefetch)}"
        if plan.costs:
            yield f"cost {', '.join(map(self._cost, plan.costs))}"
        if plan.copying != NOTHING:
            yield f"copying {self._cost(plan.copying)}"
        if plan.waiting != NOTHING:
            yield f"waiting {self._cost(plan.waiting)}"

    def _cost(self, cost: Cost) -> str:
        return self.costs.setdefault(cost, f"c{len(self.costs)}")


def _transfer(prefetch: Prefetch) -> str:
    """Return source, target, size and start of a prefetch, as "from flash to sram 64 bytes early".

    The last word is left out unless the copy starts in the previous cascade.
    """
    memories = f"from {name_or_string(prefetch.source)} to {name_or_string(prefetch.target)}"
    return f"{memories} {prefetch.size_bytes} bytes{' early' if prefetch.early else ''}"


class ScheduleReader:
    """Parses the lines of a text that describe schedules, plans, costs and settings.

    Each line begins with a keyword, such as `plan`; parsing stops at the first one that does not.
    """

    def __init__(self, scanner: Scanner, parts: Parts) -> None:
        self._scanner = scanner
        self._parts = parts
        self._costs: dict[str, Cost] = {}
        self._plans: dict[str, Callable[[], Plan]] = {}
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
                case "memory":
                    state = replace(state, memory=self._record(MemoryAssignment))
                case "copier":
                    state = replace(state, copier=scanner.name())
                case "keep_inputs":
                    word = scanner.expect_word("true", "false")
                    state = replace(state, keep_inputs=word == "true")
                case "gaps":
                    state = replace(state, gaps=self._record(Gaps))
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
        """Parse a record, "Class(field=value, ..)", or a tuple; raise ModelError for others."""
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
        scanner.expect("=")
        names = self._names() if scanner.peek().kind is TokenKind.NAME else []

        def schedule() -> Schedule:
            plans = tuple(self._find(self._plans, name)() for name in names)
            found = Schedule(
                self._parts,
                plans,
                memory,
                state.copier,
                state.keep_inputs,
                peak,
                state.gaps,
                state.updating,
            )
            if (total := found.cost.cycles) != cycles:
                text = f"the plans take {total} cycles, the schedule says {cycles}"
                raise scanner.contradiction(text, at=at)
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

        A label is a name or a handle, such as "%0", that the graph's text declares for a name.
        """
        at = self._scanner.peek()
        name = self.labels.name()
        if name not in self._numbers:
            raise self._scanner.unknown(f"{at} is no part", at=at)
        return self._numbers[name]

    def _plan(self) -> Callable[[], Plan]:
        """Parse a plan and return a function that builds it.

        Call the function when all costs have been parsed, since the text declares them later.
        """
        scanner = self._scanner
        parts = [self._part()]
        while scanner.accept(","):
            parts.append(self._part())
        stripe = scanner.integer() if scanner.accept_word("stripe") else None
        nearest = scanner.accept_word("nearest")
        scratch = scanner.integer() if scanner.accept_word("scratch") else 0
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

        return cache(
            lambda: Plan(
                tuple(parts),
                stripe,
                nearest,
                found(costs),
                tuple(prefetches),
                sum(found(copying), NOTHING),
                scratch,
                sum(found(waiting), NOTHING),
            )
        )

    def _copy(self) -> Prefetch:
        """Parse a prefetch by the copy engine."""
        return self._transfer(self.labels.name())

    def _accelerator_prefetch(self) -> Prefetch:
        """Parse a prefetch by the accelerator of a part."""
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
        """Parse a transfer, such as "from flash to sram 64 bytes early", and return its prefetch.

        constant: name of the constant that is copied.
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
    gaps: optimality gaps of the execution order and of the split into cascades.
    updating: cost of each update of a state; updates run after all plans.
    """

    memory: MemoryAssignment | None = None
    copier: str | None = None
    keep_inputs: bool = False
    gaps: Gaps = _NO_GAPS
    updating: tuple[Cost, ...] = ()
