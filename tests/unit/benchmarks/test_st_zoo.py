"""The comparison with ST's model zoo: the facts are read, and a limit can be exceeded."""

from __future__ import annotations

import pytest

import beside
from benchmarks import st_zoo
from benchmarks.shared import DEFAULT_MODELS, Shared
from benchmarks.st_zoo import NETWORKS, Published, published

SMALLEST = "MobileNetV1 0.25 96x96x1"


def test_the_facts_have_figures_of_every_network() -> None:
    beside.needed(DEFAULT_MODELS)
    found = published(Shared(DEFAULT_MODELS).facts)
    assert found.keys() == NETWORKS.keys()
    assert found[SMALLEST] == Published(54_067, 11.34)


@pytest.mark.parametrize(("activations", "holds"), [(54_067, True), (40_000, False)])
def test_a_network_must_need_a_quarter(activations: int, holds: bool) -> None:
    assert st_zoo.compared({SMALLEST: Published(activations, 11.34)}) is holds
