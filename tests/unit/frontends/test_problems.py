"""Several unsupported nodes are one error: a line for each cause, with the number of its nodes."""

from __future__ import annotations

from penstock.errors import UnsupportedError
from penstock.frontends.problems import MOST_SHOWN, collected


def problem(what: str, node: int, why: str = "") -> UnsupportedError:
    return UnsupportedError("model-020", what, where=f"m: node {node}", why=why, help="help")


def test_a_single_problem_is_unchanged() -> None:
    one = problem("SVDF: no", 3, "state")
    assert str(collected([one])) == str(one)


def test_equal_causes_are_one_line_with_a_count() -> None:
    every = [problem("SVDF: no", 1, "state"), problem("LSTM: no", 2)]
    every += [problem("SVDF: no", 4), problem("LSTM: no", 5), problem("LSTM: no", 6)]
    error = collected(every)
    assert (error.what, error.where) == ("SVDF: no", "m: node 1 and 1 more node")
    assert error.why.splitlines() == [
        "state; 1 more cause:",
        "       LSTM: no (m: node 2 and 2 more nodes)",
    ]


def test_long_lists_end_with_the_number_of_further_causes() -> None:
    error = collected([problem(f"OP{k}: no", k) for k in range(MOST_SHOWN + 4)])
    first, *lines = error.why.splitlines()
    assert first == f"{MOST_SHOWN + 3} more causes:"
    assert len(lines) == MOST_SHOWN + 1
    assert lines[-1].strip() == "and 3 more"
