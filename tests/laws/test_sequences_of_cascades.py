"""Law: cascades that run as two shorter ones are dropped without a simulation, and only if their
simulation would drop them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from test_matrix_rows import attention

from penstock.backends.processor_parts import assign
from penstock.hardware.load import load_target
from penstock.ir.graph import Graph
from penstock.passes.matrix_rows import matrix_rows
from penstock.scheduling.cascades.rows import candidate_heights
from penstock.scheduling.simulate.row_tables import RowTables, row_tables
from penstock.scheduling.simulate.walk import (
    UNBOUNDED,
    Alternatives,
    alternative_peak,
    candidates,
    demanded,
    enter_splits,
    initial_alternatives,
    run_cascade,
)
from strategies import graphs

CALLS = np.empty((0, 4), np.int64)


def simulated(tables: RowTables, upper: int, known: Alternatives) -> list[tuple[int, ...]]:
    """The candidates that end at a position, each of them simulated."""
    found: list[tuple[int, ...]] = []
    least, before = known.least_peak, known.least_cycles
    for lower in range(upper - 1, -1, -1):
        for k, stripe in enumerate(known.stripes.tolist()):
            ceiling = alternative_peak(least, lower, upper, k)
            peak, _, cycles = run_cascade(tables, lower, upper, stripe, ceiling, CALLS)
            if peak >= ceiling:
                continue
            found.append((lower, stripe, peak, cycles))
            for j in range(k, len(known.stripes)):
                if cycles <= before[j, upper] - before[j, lower]:
                    least[upper, upper - lower, j] = min(least[upper, upper - lower, j], peak)
    return found


def check(graph: Graph, most: int) -> int:
    """Compares all candidates; returns for how many intervals there are splits."""
    parts = assign(graph, load_target("cortex-m4"))
    count = len(parts.parts)
    if not count:
        return 0
    heights = candidate_heights(parts, most)
    tables = row_tables(
        parts.rows,
        tuple(range(count)),
        call_cycles=tuple(range(3, 3 + count)),
        keep_inputs=False,
        nearest_first=False,
    )
    own, known = (initial_alternatives(tables, heights, count) for _ in range(2))
    splits = 0
    for upper in range(1, count + 1):
        found, _ = candidates(tables, range(upper), upper, own, prune=True)
        assert [tuple(one) for one in found.tolist()] == simulated(tables, upper, known)
        np.testing.assert_array_equal(own.least_peak, known.least_peak)
        for lower in range(upper):
            every, at = demanded(tables), np.zeros(upper, np.bool_)
            splits += enter_splits(tables, lower, upper, every, at)
            for m in np.flatnonzero(at).tolist():
                check_peak(tables, (lower, m, upper), most)
    return splits


def check_peak(tables: RowTables, at: tuple[int, int, int], stripe: int) -> None:
    """A cascade has no lower peak than the two as which it runs, and their calls."""
    lower, m, upper = at
    whole, *halves = (
        run_cascade(tables, *each, stripe, UNBOUNDED, CALLS)
        for each in ((lower, upper), (lower, m), (m, upper))
    )
    assert whole[0] >= max(peak for peak, _, _ in halves)
    assert whole[1:] == tuple(np.sum([half[1:] for half in halves], axis=0))


@given(graph=graphs(most_nodes=8), most=st.sampled_from([1, 4]))
def test_random_networks_have_the_same_candidates(graph: Graph, most: int) -> None:
    check(graph, most)


def test_attention_has_the_same_candidates_most_of_them_without_simulation() -> None:
    graph = matrix_rows(attention(3, 6, 6, 2, shared=True))
    assert graph is not None
    assert check(graph, 8) > 0
