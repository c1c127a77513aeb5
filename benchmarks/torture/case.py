"""Case, Verdict and Generator: what is judged, what came of it, and where cases come from."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

TARGETS = ("cortex-m4", "host", "cortex-m0plus", "cortex-m55")
"""One of each core family."""


class Outcome(Enum):
    """What came of a case; the value heads a column of the table."""

    EXACT = "exact"
    REFUSED = "refused"
    NOT_JUDGED = "not judged"
    NO_REMEDY = "refused without remedy"
    MALFORMED = "valid, called malformed"
    WRONG = "wrong"
    INTERNAL = "internal error"
    TIME = "over the time"
    MEMORY = "over the memory"

    @property
    def right(self) -> bool:
        """Whether this is no finding."""
        return self in (Outcome.EXACT, Outcome.REFUSED, Outcome.NOT_JUDGED)


@dataclass(frozen=True, slots=True)
class Verdict:
    """An outcome; `code` and `cause` of an error name its class, `note` explains it."""

    outcome: Outcome
    code: str = ""
    cause: str = ""
    note: str = ""

    @property
    def signature(self) -> tuple[str, str, str]:
        """What a smaller model must share with this one to show the same mistake."""
        return (self.outcome.value, self.code, self.cause)


@dataclass(frozen=True, slots=True)
class Limits:
    """Processor time of a case, and memory beyond that of the process before the case."""

    seconds: float = 120.0
    memory_bytes: int = 4 << 30


Judge = Callable[["Case", bool], Verdict]
"""Judges a case; if the flag is set also where that takes long: the report, the core, C of other
points."""


@dataclass(frozen=True, slots=True)
class Case:
    """A model file and how to judge it.

    suffix: what the file's name ends in.
    target: the target that it is compiled for.
    models: how many models the file holds side by side.
    share: whether a network of others' tools is counted in the share that compiles: where all is to
        be quantised, only those whose every real operator is."""

    raw: bytes
    suffix: str
    judge: Judge
    models: int = 1
    share: bool = False
    target: str = TARGETS[0]


def target_of(seed: int) -> str:
    """The target for a seed; the kernels of every core family take part."""
    return TARGETS[seed % len(TARGETS)]


@dataclass(frozen=True, slots=True)
class Generator:
    """A source of cases.  `draw` is a function of the seed alone; it returns None if that seed
    yields no model, as a draw that another's tool refuses.

    needs: packages beyond those of the tests.
    deep: one case in this number is also judged where that takes seconds."""

    name: str
    draw: Callable[[int], Case | None]
    needs: tuple[str, ...] = ()
    limits: Limits = Limits()
    deep: int = 20

    @property
    def missing(self) -> tuple[str, ...]:
        """The packages that are not installed."""
        return tuple(name for name in self.needs if importlib.util.find_spec(name) is None)
