"""Records of `penstock scan`: a verdict for each model, and the causes that stop several models."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import Enum

from penstock.errors import InternalError, MismatchError, PenstockError, ToolError
from penstock.frozen import frozen

_NAME = re.compile(r'\s*"(?:[^"\\]|\\.)*"')
_NUMBER = re.compile(r"(?<![\w.])-?\d[\d.,]*(?:e[+-]?\d+)?(?:/\d+)?\b")
_LIST = re.compile(r"N(?:, N)+")


class Verdict(Enum):
    """The result of a model; the value is its name in text and JSON.

    PASSES: it passes the stages up to that after which the scan stops.
    STOPPED: it reached the time limit."""

    COMPILES = "compiles"
    PASSES = "passes"
    REFUSED = "does not compile"
    DIFFERS = "differs from the reference"
    UNVERIFIED = "compiles, but could not be verified"
    INTERNAL = "internal error"
    STOPPED = "not finished"
    LEFT_OUT = "left out"


# The verdicts of models that nothing stops.
GOOD_VERDICTS = frozenset((Verdict.COMPILES, Verdict.PASSES))


class TimeLimitError(PenstockError):
    """A model takes longer than the time limit of a scan."""


@frozen
class Obstacle:
    """A cause that stops one model: its name, its first error, and how many errors it has."""

    cause: str
    first: PenstockError
    count: int


@frozen
class Scanned:
    """One model of a scan.

    path: relative to the folder.
    copies: other files with the same content, which are not scanned again.
    operators: number of operators in the file; None if it cannot be read.
    obstacles: what stops the model, in the order in which it was found; empty if nothing does.
    """

    path: str
    copies: tuple[str, ...]
    operators: int | None
    verdict: Verdict
    obstacles: tuple[Obstacle, ...] = ()

    def as_json(self) -> dict[str, object]:
        """The record as JSON values."""
        return {
            "model": self.path,
            "copies": list(self.copies),
            "operators": self.operators,
            "verdict": self.verdict.value,
            "causes": [
                {"cause": found.cause, "count": found.count, **found.first.parts()}
                for found in self.obstacles
            ],
        }


@frozen
class CauseCount:
    """A cause, and the models that it stops.

    alone: the models that no other cause stops, as far as is known: a cause that is found when a
        file is read hides those of later stages.
    """

    cause: str
    models: tuple[str, ...]
    alone: tuple[str, ...]
    example: PenstockError

    def as_json(self) -> dict[str, object]:
        """The record as JSON values."""
        return {
            "cause": self.cause,
            "code": self.example.code,
            "models": list(self.models),
            "alone": list(self.alone),
        }


def scanned(
    path: str,
    copies: Sequence[str],
    operators: int | None,
    error: PenstockError | None,
    *,
    passes: bool = False,
    compiles: bool = False,
) -> Scanned:
    """The record of a model that raised an error, or None.

    passes: only some of the stages ran.  compiles: the error stopped the verification of a model
        that compiles."""
    if error is None:
        verdict = Verdict.PASSES if passes else Verdict.COMPILES
        return Scanned(path, tuple(copies), operators, verdict)
    return Scanned(path, tuple(copies), operators, _verdict(error, compiles), obstacles(error))


def _verdict(error: PenstockError, compiles: bool) -> Verdict:
    match error:
        case TimeLimitError():
            return Verdict.STOPPED
        case InternalError():
            return Verdict.INTERNAL
        case MismatchError():
            return Verdict.DIFFERS
        case ToolError() if compiles:
            return Verdict.UNVERIFIED
        case _:
            return Verdict.REFUSED


def obstacles(error: PenstockError) -> tuple[Obstacle, ...]:
    """The causes of an error, in order; several errors may have the same cause."""
    groups: dict[str, list[PenstockError]] = {}
    for single in error.combined or (error,):
        groups.setdefault(cause_name(single), []).append(single)
    return tuple(Obstacle(cause, found[0], len(found)) for cause, found in groups.items())


def cause_name(error: PenstockError) -> str:
    """The name under which an error is counted: that of its origin, or its text without the names
    and numbers of the model.

    >>> cause_name(PenstockError("op-012", 'stride of "conv1" is 0, must be at least 1'))
    'stride of is N, must be at least N'
    """
    if isinstance(error, InternalError):
        return f"internal error at {error.where}: {_general(error.what)}"
    if isinstance(error, TimeLimitError):
        return error.what
    return _general(error.cause or error.what)


def _general(text: str) -> str:
    return _LIST.sub("N", _NUMBER.sub("N", _NAME.sub("", text)))


def cause_counts(records: Iterable[Scanned]) -> tuple[CauseCount, ...]:
    """All causes, the one that stops most models first."""
    stopped: dict[str, list[str]] = {}
    alone: dict[str, list[str]] = {}
    examples: dict[str, PenstockError] = {}
    for record in records:
        for found in record.obstacles:
            stopped.setdefault(found.cause, []).append(record.path)
            examples.setdefault(found.cause, found.first)
            if len(record.obstacles) == 1:
                alone.setdefault(found.cause, []).append(record.path)
    counts = (
        CauseCount(cause, tuple(paths), tuple(alone.get(cause, ())), examples[cause])
        for cause, paths in stopped.items()
    )
    return tuple(sorted(counts, key=lambda c: (-len(c.models), -len(c.alone), c.cause)))
