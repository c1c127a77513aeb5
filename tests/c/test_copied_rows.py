"""Copies of rows in C: exact on the host and on the simulated core, with a slow main memory."""

from __future__ import annotations

from pathlib import Path

import penstock
from penstock import api

CHANGES = {
    "bandwidth_bytes_per_cycle = 1\nlatency_cycles = 4": "bandwidth_bytes_per_cycle = 0.125\n"
    "latency_cycles = 40",
    "cycles_per_mac = 8.1": "cycles_per_mac = 1",
    "cycles_per_element = 130.4": "cycles_per_element = 4",
}
"""What makes two-region.toml a fast processor with a slow main memory."""


def test_copies_of_rows_are_exact_on_every_rung(tmp_path: Path) -> None:
    folder = Path(penstock.__file__).parent / "hardware" / "targets"
    text = (folder / "two-region.toml").read_text()
    for old, new in CHANGES.items():
        assert old in text
        text = text.replace(old, new)
    target = tmp_path / "slow-memory.toml"
    target.write_text(text)
    wanted = api.request("zoo:lenet5", str(target), memory={"tcm": 1200}, optimize="speed")
    done = api.compile(wanted)
    schedule = done.compilation.schedule
    copies = [copy for plan in schedule.plans for copy in plan.row_copies]
    assert {copy.out for copy in copies if copy.overlapped} == {False, True}
    (source,) = (t.decode() for name, t in done.compilation.bundle.files if name == "lenet5.c")
    assert "PENSTOCK_COPY_WAIT" in source
    assert "copies rows of" in source
    verified = api.verify(wanted, last_rung="core")
    assert verified.mismatch() is None
    assert {"machine", "host"} <= {rung.step for rung in verified.rungs}
