"""The certificates of a report as phrases."""

from __future__ import annotations

import math
from dataclasses import dataclass

from penstock.memory.solver import is_installed
from penstock.reports.report import Optimality

MOST_TELLING_GAP = 0.5
"""Larger proved gaps are not shown, because so weak a bound is not useful. report.json contains the
number in any case."""


@dataclass(frozen=True, slots=True)
class CertificateVerdict:
    """The proved quality of one decision of the compiler, as a phrase; `is_proof` is False if
    nothing is proved."""

    subject: str
    words: str
    is_proof: bool


def verdicts(optimality: Optimality) -> tuple[CertificateVerdict, ...]:
    """Return a verdict for each certificate."""
    order, partition, placement = optimality.order, optimality.partition, optimality.placement
    return (
        CertificateVerdict(
            "execution order",
            words(order, "no other order of whole layers needs less memory"),
            proves(order),
        ),
        CertificateVerdict(
            "partition into cascades",
            words(partition, "no other cascades of the searched orders have a lower peak"),
            proves(partition),
        ),
        CertificateVerdict(
            "addresses",
            words(placement, "no other placement of these buffers needs less memory")
            + _remedy(placement),
            proves(placement),
        ),
    )


def proves(certificate: str | float) -> bool:
    """Return whether a certificate proves anything useful."""
    if isinstance(certificate, str):
        return certificate == "optimal"
    return 0.0 <= certificate <= MOST_TELLING_GAP


def _remedy(placement: str | float) -> str:
    """Return what may improve a placement that is not proved optimal: the constraint solver, if it
    is not installed.
    """
    if placement == "optimal" or is_installed():
        return ""
    return "; the extra `optimal` installs a solver that may find a better one"


def words(certificate: str | float, claim: str) -> str:
    """Return a certificate as a phrase. `claim` is the statement that "optimal" implies.

    >>> words("optimal", "nothing is below"), words(0.031, "")
    ('proved optimal: nothing is below', 'at most 3.1 % above a proved lower bound')
    >>> words(8.14, "")
    'nothing is proved'
    """
    if certificate == "optimal":
        return f"proved optimal: {claim}"
    if isinstance(certificate, str) or not proves(certificate):
        return "nothing is proved"
    return (
        f"at most {max(0.1, math.ceil(1000 * certificate) / 10):,.1f} % above a proved lower bound"
    )
