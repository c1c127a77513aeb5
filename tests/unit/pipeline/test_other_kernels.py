"""Proposals besides schedules: kernels with smaller tables, the measured stack as the reserve."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

import penstock
from penstock import alternatives
from penstock.api.compiled import Compiled
from penstock.api.requested import request
from penstock.api.settings import Settings
from penstock.hardware.load import load_target, parse_target, target_text
from penstock.pipeline.emission import command_line
from penstock.program.steps import table_bytes


def test_kernels_with_smaller_tables_are_proposed_if_they_save_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "zoo:lenet5"
    assert penstock.compile(name, "cortex-m4").report.smaller_kernels is None
    monkeypatch.setattr(alternatives, "NOTABLE_TABLE_SHARE", Fraction(1, 100))
    monkeypatch.setattr(alternatives, "NOTABLE_TABLE_BYTES", 512)
    done = penstock.compile(name, "cortex-m4")
    found = done.report.smaller_kernels
    assert found is not None
    assert found.kernels == "portable"
    other = penstock.compile(name, "cortex-m4", kernels=found.kernels)
    assert other.report.smaller_kernels is None
    assert found.saved_bytes == stored_bytes(done) - stored_bytes(other)


def stored_bytes(compiled: Compiled) -> int:
    """The bytes of constants without the tables of addresses, which depend on the schedule."""
    return compiled.report.flash_bytes.weights - table_bytes(compiled.compilation.program)


def test_kernels_of_another_family_leave_the_board_as_it_is() -> None:
    """Code and estimate are those of a copy of the target file that names the family."""
    text = target_text("rp2040")
    copy = parse_target(text.replace('kernels = "thumb"', 'kernels = "portable"'), "copy.toml")
    chosen = request("zoo:lenet5", "rp2040", kernels="portable")
    assert chosen.target == copy != load_target("rp2040")
    assert "--kernels portable" in str(command_line(chosen))
    assert "--kernels" not in str(command_line(request("zoo:lenet5", "rp2040", kernels="thumb")))


@pytest.mark.parametrize("name", ["mine", "rp2040"])
def test_commands_state_what_changes_the_target_of_a_file(name: str, tmp_path: Path) -> None:
    """Also if the file has the name of a shipped target, but other memories."""
    path = tmp_path / "mine.toml"
    text = target_text("rp2040").replace('name = "rp2040"', f'name = "{name}"')
    path.write_text(text.replace('size = "264KiB"', 'size = "100KiB"'))
    assert command_line(request("zoo:lenet5", str(path))).options == ()
    given: Settings = {"kernels": "portable", "clock": "1MHz", "memory": {"sram": "80KiB"}}
    assert command_line(request("zoo:lenet5", str(path), **given)).options == (
        *("--clock", "1MHz", "--kernels", "portable", "--memory", "sram=81920"),
    )


@pytest.mark.parametrize(
    ("settings", "proposed"),
    [({}, True), ({"stack": 544}, False), ({"stack": 100}, False), ({"sram": 3100}, False)],
)
def test_a_measured_stack_is_proposed_as_the_reserve(settings: Settings, proposed: bool) -> None:
    """With 3,100 bytes, 544 for the stack, the fastest point fits that needs 500 bytes more."""
    done = penstock.compile("zoo:lenet5", "cortex-m4", **settings)
    found = alternatives.with_measured_stack(done.compilation, 544)
    if not proposed:
        assert found == ()
        return
    (other,) = found
    assert other.options == "--stack 544"
    smaller = penstock.compile("zoo:lenet5", "cortex-m4", stack=544).report
    assert (other.ram_bytes, other.cycles) == (smaller.ram_bytes.total, smaller.cycles.estimated)


def test_points_beyond_a_budget_are_proposed_the_knee_too() -> None:
    """No proposal compiles for size, which the estimated cycles do not describe."""
    name, target = "zoo:tc_resnet8", "cortex-m4"
    free = penstock.compile(name, target, plan_streaming=False).report
    knee = next(point for point in free.frontier if point.chosen)
    least, fastest = free.frontier[0], free.frontier[-1]
    assert least.ram_bytes < knee.ram_bytes < fastest.ram_bytes
    tight = penstock.compile(name, target, sram=least.ram_bytes, plan_streaming=False).report
    for report, points in ((tight, (knee, fastest)), (free, (least,))):
        found = {(other.ram_bytes, other.cycles): other.options for other in report.alternatives}
        for point in points:
            expected = f"--sram {point.ram_bytes} --optimize speed"
            assert found[point.ram_bytes, point.cycles] == expected
