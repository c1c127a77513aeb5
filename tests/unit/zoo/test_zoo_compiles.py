"""A network with concatenated branches compiles, alone and beside an accelerator, and is exact."""

from __future__ import annotations

import pytest

from offloading import assert_exact, claimed, compiled
from penstock.zoo.registry import open_zoo

NETWORK = "zoo:squeezenet:resolution=32,classes=10"
SRAM_BYTES = 16 << 20


@pytest.mark.parametrize(
    ("target", "accelerators"), [("cortex-m4", ()), ("host", ("nvdla:config=large",))]
)
def test_squeezenet_runs_exactly_in_the_machine(target: str, accelerators: tuple[str, ...]) -> None:
    sram_bytes = None if accelerators else SRAM_BYTES
    done = compiled(open_zoo(NETWORK), *accelerators, target=target, sram_bytes=sram_bytes)
    assert bool(claimed(done.graph)) == bool(accelerators)
    assert_exact(done, "machine")
