"""Optional work: alternatives, suggestions and pages without which a compilation succeeds.

Everything that a request does not need is computed through this file: graphs that compute the same
in another way, bands of columns, points of the frontier beside others, plans with other options,
remedies in messages, pages.  If such work fails, which is a defect of penstock, it is dropped,
recorded and logged, and the compilation continues.  In `strict` mode, as in tests and in searches
for defects, it is an InternalError.

Some errors always pass: KeyboardInterrupt, which includes `TimeLimitReached`, and SystemExit;
BackendError, because it tells the author of an accelerator what to mend.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Generic, TypeVar

from penstock.errors import (
    BackendError,
    InternalError,
    PenstockError,
    internal_error,
    raise_interruption,
)
from penstock.frozen import frozen

LOGGER: Final = logging.getLogger("penstock.optional")

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@frozen
class Dropped:
    """Optional work that failed.

    plan: what was computed.
    error: code, message and place of the error, in one line.
    """

    plan: str
    error: str


_strict: ContextVar[bool] = ContextVar("strict", default=False)
_records: ContextVar[list[Dropped] | None] = ContextVar("records", default=None)


@contextmanager
def strict(enabled: bool = True) -> Generator[None]:
    """Raise an InternalError if optional work fails in the context, or drop it as by default."""
    token = _strict.set(enabled)
    try:
        yield
    finally:
        _strict.reset(token)


@contextmanager
def recorded() -> Generator[list[Dropped]]:
    """Record in the context's value what is dropped in the context."""
    records: list[Dropped] = []
    token = _records.set(records)
    try:
        yield records
    finally:
        _records.reset(token)


def attempt(plan: str, compute: Callable[[], _Result], otherwise: Callable[[], _Result]) -> _Result:
    """Return the result of `compute`; if it fails, drop it and return that of `otherwise`."""
    try:
        return compute()
    except BackendError:
        raise
    except Exception as error:
        _drop(plan, error)
    return otherwise()


def attempt_each(plan: str, items: Callable[[], Iterable[_Item]]) -> Iterator[_Item]:
    """Yield items that are computed on demand, up to the first one that fails."""
    try:
        yield from items()
    except BackendError:
        raise
    except Exception as error:
        _drop(plan, error)


def attempt_all(
    plan: str, items: Iterable[_Item], compute: Callable[[_Item], _Result]
) -> Iterator[_Result]:
    """Yield the result of each item, on demand, without those that fail.

    Raises the first error if every item fails: one result is necessary.
    """
    errors: list[Exception] = []
    found = False
    for item in items:
        try:
            result = compute(item)
        except BackendError:
            raise
        except Exception as error:
            _drop(plan, error)
            errors.append(error)
        else:
            found = True
            yield result
    if errors and not found:
        raise errors[0]


@frozen
class Failed:
    """The outcome of one of several tasks that failed (see `outcome`)."""

    error: PenstockError


def outcome(function: Callable[[_Item], _Result], item: _Item | Failed) -> _Result | Failed:
    """Return the result for an item, or that it failed, as the item may have before.

    A worker returns it, and `attempt_all` receives its `succeeded`.
    """
    if isinstance(item, Failed):
        return item
    try:
        return function(item)
    except BackendError:
        raise
    except Exception as error:
        raise_interruption(error)
        if _strict.get():
            raise _defect("one of several tasks", error) from error
        return Failed(_known(error))


def succeeded(found: _Result | Failed) -> _Result:
    """Return a result; raise the error of a task that failed."""
    if isinstance(found, Failed):
        raise found.error
    return found


@frozen
class Elsewhere(Generic[_Result]):
    """The result of a worker, and what it dropped (see `elsewhere`)."""

    result: _Result
    dropped: tuple[Dropped, ...]


def elsewhere(compute: Callable[[], _Result]) -> Elsewhere[_Result]:
    """Compute a result in a worker, whose records `collected` receives."""
    with recorded() as dropped:
        return Elsewhere(compute(), tuple(dropped))


def collected(found: Elsewhere[_Result]) -> _Result:
    """Return the result of a worker after recording what it dropped."""
    for one in found.dropped:
        if _strict.get():
            raise InternalError("internal-002", f"{one.plan}: {one.error}", where="a worker")
        _record(one)
    return found.result


def _drop(plan: str, error: Exception) -> None:
    """Record and log an error; raise it if it is an interruption, or in strict mode."""
    raise_interruption(error)
    if _strict.get():
        raise _defect(plan, error) from error
    known = _known(error)
    place = f" ({known.where})" if known.where else ""
    _record(Dropped(plan, f"{known.code}: {known.what}{place}"))


def _defect(plan: str, error: Exception) -> InternalError:
    known = _known(error)
    return InternalError("internal-002", f"{plan}: {known.code}: {known.what}", where=known.where)


def _known(error: Exception) -> PenstockError:
    return error if isinstance(error, PenstockError) else internal_error(error)


def _record(dropped: Dropped) -> None:
    records = _records.get()
    if records is not None:
        records.append(dropped)
    LOGGER.debug("dropped %s: %s", dropped.plan, dropped.error)
