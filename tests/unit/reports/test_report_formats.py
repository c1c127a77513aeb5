"""Formatting of names and certificates."""

import doctest

import pytest

from penstock.reports import codec, formats, layer, phrases, report
from penstock.reports.formats import short_names


@pytest.mark.parametrize("module", [codec, formats, layer, phrases, report])
def test_the_examples_in_the_docstrings_hold(module: object) -> None:
    results = doctest.testmod(module)  # pyright: ignore[reportArgumentType]
    assert results.attempted > 0
    assert results.failed == 0


def test_a_short_name_is_the_shortest_part_that_no_other_name_has() -> None:
    names = ["net/block_1/expand/Relu", "net/block_1/project/Relu", "net/block_2/expand/Relu", "x"]
    assert list(short_names(names).values()) == [
        "block_1/expand",
        "project",
        "block_2",
        "x",
    ]


def test_equal_first_names_share_a_short_name_and_contained_ones_stay_whole() -> None:
    found = short_names(["a/b;c", "a/b;d", "a/b/c", "a"])
    assert found == {"a/b;c": "a/b", "a/b;d": "a/b", "a/b/c": "c", "a": "a"}


@pytest.mark.parametrize("gap", [-1.0, float("nan"), float("inf"), "unknown"])
def test_a_certificate_that_says_nothing_proves_nothing(gap: str | float) -> None:
    assert phrases.words(gap, "claim") == "nothing is proved"


def test_a_gap_is_never_rounded_down() -> None:
    assert phrases.words(0.00001, "") == "at most 0.1 % above a proved lower bound"
    assert phrases.words(0.03101, "") == "at most 3.2 % above a proved lower bound"
    assert phrases.words(0.2501, "") == "at most 25.1 % above a proved lower bound"


@pytest.mark.parametrize("gap", [0.5001, 1.0, 4.0, 8.14])
def test_a_bound_too_weak_to_act_on_is_not_shown_as_a_result(gap: float) -> None:
    assert phrases.words(gap, "claim") == "nothing is proved"
    assert phrases.words(phrases.MOST_TELLING_GAP, "").startswith("at most 50.0 %")
