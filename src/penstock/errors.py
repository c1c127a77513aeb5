"""All exceptions that penstock raises deliberately, as a hierarchy.

    PenstockError                  a message of four parts: what, where, why, help
    ├── ModelError                 the model is unreadable, malformed or inconsistent
    │   └── UnsupportedError       the model is well-formed but not supported
    ├── TargetError                the target description is wrong or incomplete
    ├── BackendError               the description of an accelerator is wrong
    ├── ToolError                  a compiler, simulator or extra package is missing or failed
    ├── OutputError                the output cannot be written
    ├── UsageError                 the command line or call requests something that does not exist
    ├── CapacityError              the network does not fit into memory
    ├── MismatchError              generated code and reference compute different values
    └── InternalError              a bug: a broken invariant of penstock

Exit codes: 0 success; 1 an error of model, target or budget; 2 usage; 3 internal error; 4 a `scan`
in which some models do not compile.
"""

from __future__ import annotations

import difflib
import os
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence


class PenstockError(Exception):
    """An error with a stable `code` and a message in four parts: what, where, why, help.

    cause: the name under which `penstock scan` counts the error; empty: that of `what`.
    combined: the errors that a summary stands for; empty if the error is a single one.

    >>> print(PenstockError("op-012", "stride is 0, must be at least 1", where='node 3 "conv1"'))
    error[op-012]: stride is 0, must be at least 1
      --> node 3 "conv1"
    """

    exit_code = 1

    def __init__(
        self,
        code: str,
        what: str,
        *,
        where: str = "",
        why: str = "",
        help: str = "",
        cause: str = "",
        combined: Sequence[PenstockError] = (),
    ) -> None:
        super().__init__(what)
        self.code = code
        self.what = what
        self.where = where
        self.why = why
        self.help = help
        self.cause = cause
        self.combined = tuple(combined)

    def at(self, where: str) -> PenstockError:
        """Return the same error with `where` prepended to its location."""
        joined = f"{where}, {self.where}" if self.where else where
        return self.but(where=joined)

    def but(
        self, *, where: str = "", why: str = "", help: str = "", cause: str = ""
    ) -> PenstockError:
        """Return the same error with the given parts replaced."""
        return type(self)(
            self.code,
            self.what,
            where=where or self.where,
            why=why or self.why,
            help=help or self.help,
            cause=cause or self.cause,
            combined=self.combined,
        )

    def __reduce__(self) -> tuple[Callable[..., PenstockError], tuple[object, ...]]:
        """Return a function call for unpickling in another process."""
        return _rebuilt, (type(self), self.parts(), self.cause, self.combined)

    def parts(self) -> dict[str, str]:
        """Return code and parts by name, as --json prints them."""
        names = ("code", "what", "where", "why", "help")
        return {name: getattr(self, name) for name in names}

    def lines(self) -> tuple[tuple[str, str], ...]:
        """Return label and text of each part that is not empty, as `str` prints them."""
        first = (f"error[{self.code}]: ", self.what)
        parts = (("  --> ", self.where), ("  why: ", self.why), ("  help: ", self.help))
        shown = (first, *((label, text) for label, text in parts if text))
        return tuple((label, escaped_lines(text)) for label, text in shown)

    def __str__(self) -> str:
        return "\n".join(label + text for label, text in self.lines())


def _rebuilt(
    kind: type[PenstockError],
    parts: Mapping[str, str],
    cause: str,
    combined: Sequence[PenstockError],
) -> PenstockError:
    code, what, where, why, help = parts.values()
    return kind(code, what, where=where, why=why, help=help, cause=cause, combined=combined)


class ModelError(PenstockError):
    """The model is unreadable, malformed or inconsistent."""


class UnsupportedError(ModelError):
    """The model is well-formed, but uses something that penstock does not support."""


class ComputedError(UnsupportedError):
    """A node of the model computes what must be constant, or takes it from an input."""

    @classmethod
    def of(cls, error: UnsupportedError) -> ComputedError:
        """The error, as one of this kind."""
        return cls(error.code, error.what, where=error.where, help=error.help)


class TargetError(PenstockError):
    """The target description is wrong or incomplete."""


class BackendError(PenstockError):
    """The description of an accelerator is wrong; the message addresses its author."""


class ToolError(PenstockError):
    """A compiler, a simulator or an optional package is missing or failed."""


class OutputError(PenstockError):
    """The output cannot be written."""


class UsageError(PenstockError):
    """The call or command line requests something that does not exist."""

    exit_code = 2


class CapacityError(PenstockError):
    """The network does not fit into the available memory."""


class MismatchError(PenstockError):
    """Two rungs of the verification ladder computed different values."""


class InternalError(PenstockError):
    """A broken invariant of penstock itself."""

    exit_code = 3


def escaped(text: str) -> str:
    """Return the text with escapes for characters that terminals obey or nobody sees: names of
    files may contain any.

    >>> print(escaped("a\\x1b[31m\\n"))
    a\\x1b[31m\\n
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


def escaped_lines(text: str) -> str:
    return "\n".join(map(escaped, text.split("\n")))


def did_you_mean(name: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """Return a suggestion for a help text: the known name that is most like a misspelt one.

    likeness: how like it must be, from 0 (anything) to 1 (equal).

    >>> did_you_mean("schedul", ("read", "schedule")), did_you_mean("x", ("read", "schedule"))
    ('did you mean schedule? ', '')
    """
    near = difflib.get_close_matches(name, tuple(known), 1, likeness)
    return f"did you mean {near[0]}? " if near else ""


def denoting(names: Iterable[str]) -> tuple[str, ...]:
    """Return names of nodes, and the parts of their paths that only one has, for `did_you_mean`.

    >>> denoting(["net/act/Relu;net/bias", "net/add/Relu"])[2:]
    ('act', 'add', 'bias')
    """
    known = tuple(dict.fromkeys(names))
    parts = Counter(part for full in known for part in {*full.replace(";", "/").split("/")})
    return (*known, *(part for part, count in sorted(parts.items()) if part and count == 1))


def listed(names: Sequence[str], most: int = 8) -> str:
    """Return names for a message: at most `most`, and how many others there are.

    >>> listed(("a", "b", "c")), listed(("a", "b", "c"), most=2)
    ('a, b, c', 'a, b and 1 more')
    """
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def raise_interruption(error: Exception) -> None:
    """Raise the KeyboardInterrupt or SystemExit of a signal, if it is the reason for an error:
    Numba raises a SystemError from it, and others fail while they clean up."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, (KeyboardInterrupt, SystemExit)):
            raise seen from None
        seen = seen.__cause__ or seen.__context__


def internal_error(error: Exception) -> InternalError:
    """Return the InternalError for any other exception, with the line that raised it."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return InternalError(
        "internal-001",
        f"{type(error).__name__}: {error}",
        where=f"{os.path.basename(last.filename)}:{last.lineno}",
        why="this is a bug in penstock, not an error in your model",
        help="please report it with the model, or with `penstock show MODEL --stop-after read`",
    )
