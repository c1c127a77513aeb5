"""A network with concatenated branches compiles, alone and beside an accelerator, and is exact."""

from __future__ import annotations

import pytest

from offloading import assert_exact, claimed, compiled
from penstock.zoo.registry import open_zoo

M4, NVDLA = ("cortex-m4", ()), ("host", ("nvdla:config=large",))
NVDLA_SMALL = ("host", ("nvdla:config=small",))
SQUEEZENET = "zoo:squeezenet:resolution=32,classes=10"
RANDWIRE = "zoo:randwire:nodes=6,channels=8,resolution=32,classes=10"
NASNET = "zoo:nasnet_mobile:filters=8,cells=1,resolution=32,classes=10"
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
        (RANDWIRE, *M4),
        (RANDWIRE, *NVDLA),
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


@pytest.mark.long
@pytest.mark.parametrize("network", [NASNET, RANDWIRE])
@pytest.mark.parametrize(("target", "accelerators"), [M4, NVDLA_SMALL, NVDLA])
def test_an_irregular_network_runs_exactly_in_c(
    network: str, target: str, accelerators: tuple[str, ...]
) -> None:
    """On the simulated core if it is small enough to be run there within a minute."""
    sram_bytes = None if accelerators else SRAM_BYTES
    done = compiled(open_zoo(network), *accelerators, target=target, sram_bytes=sram_bytes)
    on_core = network == RANDWIRE and not accelerators
    assert_exact(done, "core" if on_core else "host", every_point=False)
