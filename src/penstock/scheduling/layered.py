"""layered: the schedule that runs layer by layer: every part whole, in the order of least peak."""

from __future__ import annotations

from penstock.ir.region import Region
from penstock.scheduling.cost import CostModel, cost_of
from penstock.scheduling.options import Options
from penstock.scheduling.part import Part, Parts
from penstock.scheduling.plan import Plan, Stripe
from penstock.scheduling.schedule import Frontier, Schedule


def layer_by_layer(parts: Parts, model: CostModel, options: Options) -> Frontier:
    """The one schedule that runs every part whole."""
    plans = tuple(_whole(k, part, model) for k, part in enumerate(parts.parts))
    schedule = Schedule(parts, plans, (), options.keep_input, 0, 0.0)
    return Frontier((schedule,))


def _whole(index: int, part: Part, model: CostModel) -> Plan:
    out = Region.whole(part.output.type.shape)
    return Plan((index,), (Stripe(out),), cost_of(part, out, model))
