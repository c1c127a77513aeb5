"""Wait states of the flash change the cycles of a schedule, but not the least memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from available import path_of
from penstock import api
from penstock.hardware.load import target_text


@pytest.mark.parametrize("model", ["digits", "strided_residual"])
def test_slow_flash_costs_cycles_and_no_memory(model: str, tmp_path: Path) -> None:
    memories, flash = target_text("cortex-m4").split('name = "flash"')
    slow = flash.replace("_per_cycle = 4", "_per_cycle = 1.78", 1)
    slow = slow.replace("latency_cycles = 0", "latency_cycles = 5", 1)
    (tmp_path / "slow.toml").write_text(f'{memories}name = "flash"{slow}', "utf-8")
    fast = api.compile(path_of(model), "cortex-m4").report.frontier
    found = api.compile(path_of(model), str(tmp_path / "slow.toml")).report.frontier
    assert found[0].ram_bytes == fast[0].ram_bytes
    assert found[0].cycles > fast[0].cycles
