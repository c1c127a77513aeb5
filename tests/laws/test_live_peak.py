"""Law: the live peak is the greatest need of any tick, at the earliest such tick."""

from math import gcd

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.memory.problem import LiveBuffer, PlacementProblem, live_peak
from quick import examples

LIVES = st.tuples(st.integers(0, 8), st.integers(1, 5))
BUFFERS = st.lists(st.tuples(LIVES, st.integers(1, 9), st.sampled_from((1, 2, 4, 6))), max_size=12)


def stacked_bytes(live: tuple[LiveBuffer, ...]) -> int:
    """The least height of buffers above each other at multiples of a common grain."""
    grain = gcd(*(b.alignment for b in live))
    padded = sum(b.size_bytes + -b.size_bytes % grain for b in live)
    return min((padded - -top.size_bytes % grain for top in live), default=0)


@given(BUFFERS)
@settings(deadline=None, max_examples=examples(300))
def test_the_live_peak_is_the_first_of_the_greatest_needs(
    drawn: list[tuple[tuple[int, int], int, int]],
) -> None:
    buffers = tuple(
        LiveBuffer(f"b{i}", lower, lower + length, size, alignment)
        for i, ((lower, length), size, alignment) in enumerate(drawn)
    )
    alive = {t: tuple(b for b in buffers if b.lower <= t < b.upper) for t in range(14)}
    needs = {tick: stacked_bytes(live) for tick, live in alive.items()}
    peak = live_peak(PlacementProblem(buffers))
    assert peak.size_bytes == max(needs.values())
    if buffers:
        assert peak.tick == min(t for t, need in needs.items() if need == peak.size_bytes)
        assert peak.names == tuple(b.name for b in alive[peak.tick])
