"""vanilla claims convolutions of one group; stub, functional model and reference agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from clean_sources import COMPILERS, assert_sources_are_clean
from offloading import assert_exact, claimed, compiled
from penstock.zoo.registry import open_zoo


@pytest.mark.parametrize("kind", COMPILERS)
def test_its_sources_compile_without_a_warning(kind: str, tmp_path: Path) -> None:
    assert_sources_are_clean("vanilla", kind, tmp_path)


def test_stub_model_and_reference_agree(host_compilers: tuple[str, ...]) -> None:
    done = compiled(open_zoo("zoo:lenet5"), "vanilla")
    assert list(claimed(done.graph)) == ["conv1", "conv2"]
    assert_exact(done, "host")


def test_more_macs_per_cycle_cost_less() -> None:
    slow, fast = (
        compiled(open_zoo("zoo:lenet5"), f"vanilla:macs_per_cycle={macs}").schedule.cost.cycles
        for macs in (1, 64)
    )
    assert fast < slow
