"""With a RAM budget, memory that is not scarce is spent on code without tables."""

from __future__ import annotations

from functools import cache

from offloading import assert_exact
from penstock import api
from penstock.pareto import noticeably_faster
from penstock.pipeline.compilation import Compilation
from penstock.program.steps import row_tables, walk


@cache
def compiled(sram: int | None = None, optimize: str | None = None) -> Compilation:
    return api.compile("zoo:resnet8", "cortex-m4", sram=sram, optimize=optimize).compilation


def test_rows_have_tables_only_where_memory_is_scarce() -> None:
    least = compiled()
    assert row_tables(least.program)
    spare = compiled(sram=2 * max(p.ram_bytes(least.request) for p in least.points))
    assert not row_tables(spare.program)
    assert spare.point.is_feasible(spare.request)
    assert_exact(spare, "machine")


def test_the_chosen_point_is_hardly_slower_than_the_fastest_and_has_less_code() -> None:
    fastest = compiled(optimize="speed")
    budget = fastest.point.ram_bytes(fastest.request)
    for sram in (budget, 2 * budget):
        found = compiled(sram=sram)
        cycles = found.point.schedule.cost.cycles
        assert found.point in found.points
        assert found.point.ram_bytes(found.request) <= sram
        assert not noticeably_faster(fastest.point.schedule.cost.cycles, than=cycles)
        commands = [sum(1 for _ in walk(one.program.run)) for one in (found, fastest)]
        assert commands[0] <= commands[1]


def test_without_a_budget_the_least_memory_is_kept() -> None:
    kept, found = compiled(optimize="speed").points, compiled(sram=1 << 20).points
    assert [p.height_bytes for p in kept] == [p.height_bytes for p in found][: len(kept)]
