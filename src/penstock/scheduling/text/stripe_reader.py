"""Checks the lines `stripes` in the text of a schedule.

They state the stripes of the tensors of each plan, which must equal those that the plan determines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.scanner import Scanner, Token, quoted
from penstock.scheduling.bands.band_schedule import plan_configs
from penstock.scheduling.model.plan import BufferMode
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.model.stripe import Stripes
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule

MODES = tuple(mode.value for mode in BufferMode)
"""Names of the buffer modes: how much of a tensor is in memory while its cascade runs."""


@dataclass(frozen=True, slots=True)
class ReadStripes:
    """The contents of a line `stripes`: the stripes of a tensor in a plan.

    tensor: name of the tensor.
    at: token of this name, for error messages.
    """

    tensor: str
    mode: BufferMode
    stripes: Stripes
    at: Token


@dataclass(frozen=True, slots=True)
class StripeReader:
    """Compares the stripes that the text of a schedule states with those that its plans determine.

    _stated: the stripes that the text states, by name of the plan.
    _checked: names of the plans that have been compared.
    """

    scanner: Scanner
    _stated: dict[str, list[ReadStripes]] = field(default_factory=dict[str, list[ReadStripes]])
    _checked: set[str] = field(default_factory=set[str])

    def add(self, plan: str, stated: ReadStripes) -> None:
        """Add the contents of one line `stripes`, to be compared by `check`.

        plan: name of the plan in the text.
        """
        self._stated.setdefault(plan, []).append(stated)

    def check(self, schedule: Schedule, plans: Sequence[str]) -> None:
        """Compare the stripes of the plans of a schedule with those that the text states.

        Plans for which the text states no stripes, or that have been compared before, are skipped.
        plans: the names of the schedule's plans in the text, in execution order.

        Raises ModelError if the stripes or the buffer mode of a tensor differ, or if a plan does
        not compute the tensor.
        """
        if self._stated.keys().isdisjoint(plans):
            return
        expanded = ExpandedSchedule(schedule)
        for plan, cascade in zip(plans, expanded.cascades, strict=True):
            if plan not in self._stated or plan in self._checked:
                continue
            self._checked.add(plan)
            known = {config.tensor: config for config in plan_configs(expanded, cascade)}
            for stated in self._stated[plan]:
                found = known.get(stated.tensor)
                if found is None or (found.mode, found.stripes) != (stated.mode, stated.stripes):
                    others = "does not compute it" if found is None else "has other stripes of it"
                    text = f"the plan {quoted(plan)} {others}"
                    raise self.scanner.contradiction(text, at=stated.at)
