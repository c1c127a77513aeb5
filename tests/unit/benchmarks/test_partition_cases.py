"""Cases of partitioning: correct ones agree, changed ones are detected."""

from __future__ import annotations

from pathlib import Path

import pytest

import beside
from benchmarks import cases
from case_files import changed
from penstock.errors import ModelError

REPOSITORY = Path(__file__).resolve().parents[3]
SMALL = REPOSITORY / "tests" / "cases" / "partition_small.json"
SHARED = beside.CASES / "partition_graphs.json"


def test_the_cases_worked_out_on_paper_agree(capsys: pytest.CaptureFixture[str]) -> None:
    assert cases.main([str(SMALL)]) == 0
    assert "16 of 16 agree" in capsys.readouterr().out


@beside.need(SHARED)
def test_the_shared_cases_agree(capsys: pytest.CaptureFixture[str]) -> None:
    assert cases.main([str(SHARED)]) == 0
    assert "8 of 8 agree" in capsys.readouterr().out


CHANGES = (
    (("graphs", 0, "layer_by_layer_cost"), 21, "cost is 20, expected 21", 1),
    (("graphs", 0, "nodes", "c", "depth"), 3, "depth of c is 2, expected 3", 1),
    (("graphs", 1, "depth_dp_cost"), 18, "cost is 19, expected 18", 1),
    (("graphs", 1, "optimal_cost"), 6, "cost is 5, expected 6", 1),
    (("graphs", 1, "optimal_groups"), [["s", "m1"], ["m2", "p", "join"]], "group 1 of those", 1),
    (("graphs", 1, "optimal_groups"), [["s", "join"], ["m1", "m2"], ["p"]], "in a circle", 1),
    (("graphs", 0, "optimal_groups"), [["a"], ["b", "c"]], "the groups given is 16", 1),
    (("graphs", 0, "weight_cap"), 0, "a single node exceeds the capacity", 2),
    (("graphs", 3, "single_layer_groups_always_allowed"), False, "single node exceeds", 2),
)


@pytest.mark.parametrize(("place", "value", "message", "wrong"), CHANGES)
def test_a_figure_that_is_changed_is_found(
    place: tuple[str | int, ...],
    value: object,
    message: str,
    wrong: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cases.main([str(changed(SMALL, place, value, tmp_path))]) == 1
    out = capsys.readouterr().out
    assert message in out
    assert f"{16 - wrong} of 16 agree" in out


MALFORMED = (
    (("graphs",), [], "no list of graphs", "graphs"),
    (("graphs", 0, "nodes", "a", "bytes"), -1, "greater than", "graph 0, nodes, a, bytes"),
    (("graphs", 0, "edges", 0), ["a", "z"], "no node z", "graph 0"),
    (("graphs", 1, "edges", 0), ["join", "s"], "lead in a circle", "graph 1"),
    (("graphs", 1, "network_outputs"), ["q"], "no node q", "graph 1"),
    (("graphs", 1, "optimal_groups"), [["s"], ["p"]], "do not name every node once", "graph 1"),
)


@pytest.mark.parametrize(("place", "value", "what", "where"), MALFORMED)
def test_a_malformed_graph_is_named(
    place: tuple[str | int, ...], value: object, what: str, where: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=what) as caught:
        cases.main([str(changed(SMALL, place, value, tmp_path))])
    assert where in caught.value.where
