"""Order: equals brute force on small graphs; large graphs get a proven gap."""

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InternalError
from penstock.scheduling.order.order import (
    FreeSequence,
    Order,
    OrderOptions,
    State,
    StepSearch,
    find_order,
    order_by,
    pieces,
)
from penstock.scheduling.order.steps import (
    Heuristic,
    OrderProblem,
    OrderStep,
    StepTable,
    bits,
    heuristic_order,
    shared_bytes,
    step_table,
)


def peak_bytes(problem: OrderProblem, order: tuple[int, ...]) -> int:
    """The live bytes at the peak if the steps run in `order`, a sequence of step indices."""
    sizes = dict(problem.sizes)
    kept = set(problem.outputs) | (set(problem.inputs) if problem.keep_inputs else set[str]())
    steps = [problem.steps[i] for i in order]
    last_read = {name: at for at, step in enumerate(steps) for name in step.reads}
    live = {name for name in problem.inputs if name in last_read or name in kept}
    peak = sum(sizes[name] for name in live)
    for at, step in enumerate(steps):
        live |= set(step.writes)
        sharing = [(r, w) for r, w in step.in_place if last_read[r] == at and r not in kept]
        shared = shared_bytes(tuple((r, w, min(sizes[r], sizes[w])) for r, w in sharing))
        peak = max(peak, sum(sizes[name] for name in live) + step.scratch_bytes - shared)
        live = {name for name in live if last_read.get(name, -1) > at or name in kept}
    return peak


def file_peak(problem: OrderProblem) -> int:
    """The peak of the order in which the problem lists the steps, as far as that is an order."""
    return peak_bytes(problem, order_by(problem, Heuristic.FILE).order)


@st.composite
def graphs(draw: st.DrawFn, max_steps: int) -> OrderProblem:
    """Small graphs of any shape, with scratch, in-place pairs and steps in any file order."""
    inputs = [f"x{i}" for i in range(draw(st.integers(1, 2)))]
    tensors = list(inputs)
    steps: list[OrderStep] = []
    for i in range(draw(st.integers(1, max_steps))):
        reads = tuple(draw(st.sets(st.sampled_from(tensors), min_size=0, max_size=3)))
        reads = tuple(sorted(reads))
        writes = tuple(f"t{i}{end}" for end in "ab"[: draw(st.sampled_from((1, 1, 1, 2)))])
        pairs = [pair for pair in product(reads, writes) if draw(st.integers(0, 2)) == 0]
        steps.append(OrderStep(f"s{i}", reads, writes, draw(st.integers(0, 2)), tuple(pairs)))
        tensors += writes
    sizes = tuple((name, draw(st.integers(1, 9))) for name in tensors)
    outputs = tuple(sorted(draw(st.sets(st.sampled_from(tensors), max_size=2))))
    steps = draw(st.permutations(steps))
    return OrderProblem(tuple(steps), sizes, tuple(inputs), outputs, draw(st.booleans()))


def all_orders(problem: OrderProblem) -> Iterator[tuple[int, ...]]:
    """Every order in which no step reads what is not written yet."""

    def extend(order: tuple[int, ...], known: set[str]) -> Iterator[tuple[int, ...]]:
        if len(order) == len(problem.steps):
            yield order
        for i, step in enumerate(problem.steps):
            if i not in order and known.issuperset(step.reads):
                yield from extend((*order, i), known | set(step.writes))

    return extend((), set(problem.inputs))


def is_valid(problem: OrderProblem, found: Order) -> bool:
    known = set(problem.inputs)
    for i in found.order:
        if not known.issuperset(problem.steps[i].reads):
            return False
        known.update(problem.steps[i].writes)
    return sorted(found.order) == list(range(len(problem.steps)))


def cells(count: int, branches: int) -> OrderProblem:
    """Cells of widening and narrowing branches; each reads the two cells before it."""
    steps: list[OrderStep] = []
    sizes = {"x": 8, "h0": 8, "h1": 8}

    def step(name: str, reads: tuple[str, ...], size: int, in_place: bool = False) -> str:
        pairs = tuple((read, name) for read in reads) if in_place else ()
        steps.append(OrderStep(name, reads, (name,), size // 4, pairs))
        sizes[name] = size
        return name

    step("h0", ("x",), 8)
    step("h1", ("h0",), 8)
    for c in range(2, count + 2):
        ends: list[str] = []
        for b in range(branches):
            near = step(f"c{c}b{b}near", (f"h{c - 1}",), 6 + b)
            wide = step(f"c{c}b{b}wide", (f"h{c - 2}",), 9 + 2 * b)
            slim = step(f"c{c}b{b}slim", (wide,), 5 + b)
            ends.append(step(f"c{c}b{b}sum", (near, slim), 4 + b, in_place=True))
        step(f"h{c}", tuple(ends), 3 * branches)
    return OrderProblem(tuple(steps), tuple(sizes.items()), ("x",), (f"h{count + 1}",))


def in_a_row(first: OrderProblem, second: OrderProblem) -> OrderProblem:
    """The second problem after the first, whose output it takes for its input."""
    joint = {name: f"second {name}" for name, _ in second.sizes}
    joint[second.inputs[0]] = first.outputs[0]
    steps = tuple(
        OrderStep(
            f"second {step.name}",
            tuple(joint[name] for name in step.reads),
            tuple(joint[name] for name in step.writes),
            step.scratch_bytes,
            tuple((joint[r], joint[w]) for r, w in step.in_place),
        )
        for step in second.steps
    )
    sizes = dict(first.sizes) | {joint[n]: b for n, b in second.sizes if n not in second.inputs}
    outputs = tuple(joint[name] for name in second.outputs)
    return OrderProblem((*first.steps, *steps), tuple(sizes.items()), first.inputs, outputs)


@given(graphs(max_steps=8))
@settings(deadline=None, max_examples=50)
def test_the_order_is_the_best_of_all_orders(problem: OrderProblem) -> None:
    found = find_order(problem)
    assert is_valid(problem, found)
    assert found.peak_bytes == peak_bytes(problem, found.order)
    assert found.peak_bytes == min(peak_bytes(problem, order) for order in all_orders(problem))
    assert found.gap == 0.0


@given(graphs(max_steps=8), st.integers(0, 4), st.integers(0, 2))
@settings(deadline=None, max_examples=60)
def test_a_search_cut_short_states_a_true_bound(
    problem: OrderProblem, max_states: int, beam_width: int
) -> None:
    found = find_order(problem, OrderOptions(max_states, beam_width))
    best = find_order(problem).peak_bytes
    assert is_valid(problem, found)
    assert found.bound_bytes <= best <= found.peak_bytes <= file_peak(problem)


@given(graphs(max_steps=8))
@settings(deadline=None, max_examples=60)
def test_the_table_counts_what_the_plain_definition_counts(problem: OrderProblem) -> None:
    table = step_table(problem)
    for heuristic in Heuristic:
        order = heuristic_order(table, heuristic)
        assert sorted(order) == list(range(len(problem.steps)))
        assert table.peak(0, table.start_bytes, order)[0] == peak_bytes(problem, order)


class PlainlyChecked(StepSearch):
    """A search that compares each free sequence with all sequences from all ready steps."""

    def _next_free(self, state: State) -> FreeSequence | None:
        found = super()._next_free(state)
        peaks = [
            peak
            for start in bits(state.ready)
            for peak in self.peaks(state.done, state.live_bytes, start, state.live_bytes)
        ]
        assert bool(found) == any(peak <= state.peak_bytes for peak in peaks)
        if found:
            live = state.live_bytes
            peak, after = self.table.peak(state.done, live, found.steps)
            assert after == live + found.added_bytes <= live
            assert peak <= state.peak_bytes
        return found

    def peaks(self, done: int, live: int, step: int, limit: int) -> Iterator[int]:
        """Yield the peak of each sequence from `step` that ends with at most `limit` bytes."""
        during, after = self.table.run(done, live, step)
        if after <= limit:
            yield during
        else:
            done |= 1 << step
            for reader in bits(self.table.ready_after(done, step) & self.piece.goal):
                for peak in self.peaks(done, after, reader, limit):
                    yield max(during, peak)


@given(graphs(max_steps=12))
@settings(deadline=None, max_examples=60)
def test_free_sequences_are_found_where_trying_all_steps_finds_one(problem: OrderProblem) -> None:
    table = step_table(problem)
    for piece in pieces(table):
        search = PlainlyChecked(table, piece)
        assert search.best_first(0, 1000, 500).order is not None
        search.beam(search.piece.live_bytes + 20, 4)


@given(graphs(max_steps=12), st.integers(0, 60))
@settings(deadline=None, max_examples=60)
def test_a_beam_that_fails_tells_the_least_limit_of_another_result(
    problem: OrderProblem, limit: int
) -> None:
    table = step_table(problem)
    search = StepSearch(table, pieces(table)[0])
    start = max(limit, search.piece.live_bytes)
    while search.beam(start, 1) is None:
        exceeding = search.exceeding_bytes
        assert start < exceeding < math.inf
        assert all(search.beam(between, 1) is None for between in range(start, int(exceeding)))
        start = int(exceeding)


# By hand: x feeds two branches, a of which the start is wide and the end slim.
BRANCHES = OrderProblem(
    (
        OrderStep("wide1", ("x",), ("w1",)),
        OrderStep("wide2", ("x",), ("w2",)),
        OrderStep("slim1", ("w1",), ("s1",)),
        OrderStep("slim2", ("w2",), ("s2",)),
        OrderStep("join", ("s1", "s2"), ("y",)),
    ),
    (("x", 4), ("w1", 10), ("w2", 10), ("s1", 2), ("s2", 2), ("y", 4)),
    inputs=("x",),
    outputs=("y",),
)


def test_a_branch_is_finished_before_the_next_one_begins() -> None:
    found = find_order(BRANCHES)
    names = [BRANCHES.steps[i].name for i in found.order]
    assert names in (
        ["wide1", "slim1", "wide2", "slim2", "join"],
        ["wide2", "slim2", "wide1", "slim1", "join"],
    )
    assert (file_peak(BRANCHES), found.peak_bytes, found.optimal) == (24, 16, True)


def test_the_given_order_stays_where_no_other_is_better() -> None:
    steps = tuple(BRANCHES.steps[i] for i in (1, 3, 0, 2, 4))
    assert find_order(replace(BRANCHES, steps=steps)).order == (0, 1, 2, 3, 4)


def test_kept_inputs_stay_live_to_the_end() -> None:
    order = (0, 2, 1, 3, 4)
    kept = replace(BRANCHES, keep_inputs=True)
    assert peak_bytes(BRANCHES, order) == 4 + 2 + 10  # at wide2
    assert peak_bytes(kept, order) == 4 + 2 + 10 + 2  # at slim2, x still there


@pytest.mark.parametrize(
    ("in_place", "outputs", "peak"),
    [
        ((), ("y",), 6 + 5),
        ((("a", "y"),), ("y",), 6),  # the larger of the two
        ((("a", "y"),), ("y", "a"), 6 + 5),  # a is an output, so it must survive
    ],
)
def test_in_place_counts_the_larger_tensor_once(
    in_place: tuple[tuple[str, str], ...], outputs: tuple[str, ...], peak: int
) -> None:
    steps = (OrderStep("make", ("x",), ("a",)), OrderStep("use", ("a",), ("y",), 0, in_place))
    problem = OrderProblem(steps, (("x", 1), ("a", 6), ("y", 5)), ("x",), outputs)
    assert find_order(problem).peak_bytes == max(peak, 1 + 6)


def test_a_tensor_shares_memory_with_at_most_one_other() -> None:
    assert shared_bytes((("a", "y", 4), ("b", "y", 3))) == 4
    assert shared_bytes((("a", "y", 4), ("b", "z", 3))) == 7
    assert shared_bytes((("a", "y", 5), ("a", "z", 4), ("b", "y", 4))) == 8
    assert shared_bytes(()) == 0


def test_the_search_space_is_reduced() -> None:
    """Each reduction (floor, ceiling, free steps, free sequences, merging, pieces) saves states."""
    high, low = cells(count=2, branches=3), cells(count=3, branches=2)
    alone, both = find_order(high), find_order(in_a_row(low, high))
    assert alone.optimal
    assert both.optimal
    assert both.peak_bytes == alone.peak_bytes
    assert (alone.states, both.states) == (820, 829)


def test_pieces_end_where_every_order_has_to_pass() -> None:
    table = step_table(BRANCHES)
    assert [(piece.done, piece.goal) for piece in pieces(table)] == [(0, 0b11111)]
    longer = replace(
        BRANCHES,
        steps=(*BRANCHES.steps, OrderStep("last", ("y",), ("z",))),
        sizes=(*BRANCHES.sizes, ("z", 1)),
        outputs=("z",),
    )
    goals = [piece.goal for piece in pieces(step_table(longer))]
    assert goals == [0b011111, 0b111111]


def test_a_large_irregular_network_gets_a_better_order_and_a_proven_gap() -> None:
    problem = cells(count=38, branches=5)
    assert len(problem.steps) == 800
    found = find_order(problem, OrderOptions(max_states=3_000, beam_width=4))
    assert is_valid(problem, found)
    assert found.peak_bytes < file_peak(problem)
    assert 0.0 <= found.gap < 0.5


def test_a_step_is_tried_again_only_after_steps_that_share_a_tensor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs, run = [0], StepTable.run

    def counted(table: StepTable, done: int, live_bytes: int, step: int) -> tuple[int, int]:
        runs[0] += 1
        return run(table, done, live_bytes, step)

    monkeypatch.setattr(StepTable, "run", counted)
    found = find_order(cells(count=2, branches=24), OrderOptions(max_states=300, beam_width=4))
    assert found.peak_bytes == 470
    assert runs[0] < 800_000  # ten times as many if all ready steps are tried after each step


@pytest.mark.parametrize(
    ("steps", "outputs", "message"),
    [
        ([OrderStep("a", ("x",), ("y",)), OrderStep("b", ("x",), ("y",))], ("y",), "one writer"),
        ([OrderStep("a", ("x",), ("unsized",))], ("x",), "needs a size"),
        ([OrderStep("a", ("y",), ("z",)), OrderStep("b", ("z",), ("y",))], ("z",), "cycle"),
        ([OrderStep("a", ("x",), ("y",), 0, (("y", "x"),))], ("y",), "in-place"),
    ],
)
def test_a_malformed_problem_is_refused(
    steps: list[OrderStep], outputs: tuple[str, ...], message: str
) -> None:
    with pytest.raises(InternalError, match=message):
        OrderProblem(tuple(steps), (("x", 1), ("y", 1), ("z", 1)), ("x",), outputs)
