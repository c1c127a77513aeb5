"""Laws of the bounds of plans: the least schedule of the search against all plans.

Over small networks: the bound along the longest path is at most the least live bytes of all
enumerated plans, and these are at most those of the search, which may need little more.
"""

from __future__ import annotations

from hypothesis import given

from benchmarks.below_rows_bound import enumeration, path_bound
from found import few
from penstock.backends.processor_parts import assign
from penstock.hardware.load import load_target
from penstock.ir.graph import Graph
from penstock.pipeline.search import schedule
from penstock.scheduling.options import Options
from small_plans import narrow_and_wide

TARGET = load_target("host")
LIMIT = 1.5
LOSS = 1.5
"""The search may need this much more memory than all plans, whose arenas are not rounded to words
and whose bands recompute no columns; the largest ratio seen is 1.34."""


@few
@given(graph=narrow_and_wide())
def test_bounds_are_ordered(graph: Graph) -> None:
    parts = assign(graph, TARGET, stream_input=True)
    found = schedule(parts, TARGET, Options(max_recompute=LIMIT)).schedules
    live = min(one.peak_bytes for one in found)
    most_macs = (LIMIT - 1.0) * graph.macs()
    every = enumeration(parts, most_macs, live + 1).least_bytes()[0]
    path = path_bound(parts, most_macs, live + 1)
    print(f"bound {path}, all plans {every}, search {live}: ratio {live / every:.3f}")
    assert path <= every <= live <= LOSS * every
