"""Verdict: what a report's certificates prove, in plain words."""

from __future__ import annotations

import math
from dataclasses import dataclass

from penstock.reports.report import Optimality

MOST_TELLING_GAP = 0.5
"""A larger proven gap is not shown as a result: such a bound says that the answer is within half as
much again of the least, which is too weak to act on.  report.json has the number all the same."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is proven of one decision of the compiler."""

    subject: str
    words: str


def verdicts(optimality: Optimality) -> tuple[Verdict, ...]:
    """A verdict on each certificate."""
    return (
        Verdict(
            "execution order",
            words(
                optimality.order, "no other order of these layers, each whole, needs less memory"
            ),
        ),
        Verdict(
            "partition into cascades",
            words(
                optimality.partition, "no other cascades of the orders tried need less live memory"
            ),
        ),
        Verdict(
            "addresses",
            words(optimality.placement, "no other placement of these buffers needs less memory"),
        ),
    )


def words(certificate: str | float, claim: str) -> str:
    """A certificate in words; `claim` is what holds where it says "optimal".

    >>> words("optimal", "nothing is below"), words(0.031, "")
    ('proven optimal: nothing is below', 'at most 3.1 % above a proven lower bound')
    >>> words(8.14, "")
    'nothing is proven'
    """
    if certificate == "optimal":
        return f"proven optimal: {claim}"
    if isinstance(certificate, str) or not 0.0 <= certificate <= MOST_TELLING_GAP:
        return "nothing is proven"
    return (
        f"at most {max(0.1, math.ceil(1000 * certificate) / 10):,.1f} % above a proven lower bound"
    )
