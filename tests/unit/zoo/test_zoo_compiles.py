"""A network with concatenated branches compiles, alone and beside an accelerator, and is exact."""

from __future__ import annotations

import pytest

from offloading import assert_exact, claimed, compiled
from penstock.zoo.registry import open_zoo

M4, NVDLA = ("cortex-m4", ()), ("host", ("nvdla:config=large",))
SQUEEZENET = "zoo:squeezenet:resolution=32,classes=10"
EFFICIENTNET = "zoo:efficientnet_b0:alpha=0.25,resolution=32,classes=10"
LARGER = (
    "zoo:densenet121:growth=4,resolution=32,classes=10",
    "zoo:densenet121:growth=8,resolution=32,classes=10",
    "zoo:inception_v3:resolution=75",
)
SRAM_BYTES = 32 << 20


@pytest.mark.parametrize(
    ("network", "target", "accelerators"),
    [
        (SQUEEZENET, *M4),
        (SQUEEZENET, *NVDLA),
        (EFFICIENTNET, *M4),
        pytest.param(EFFICIENTNET, *NVDLA, marks=pytest.mark.long),
        *(
            pytest.param(network, *where, marks=pytest.mark.long)
            for network in LARGER
            for where in (M4, NVDLA)
        ),
    ],
)
def test_a_network_runs_exactly_in_the_machine(
    network: str, target: str, accelerators: tuple[str, ...]
) -> None:
    sram_bytes = None if accelerators else SRAM_BYTES
    done = compiled(open_zoo(network), *accelerators, target=target, sram_bytes=sram_bytes)
    assert bool(claimed(done.graph)) == bool(accelerators)
    assert_exact(done, "machine")
