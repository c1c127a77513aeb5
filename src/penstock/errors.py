"""Everything that penstock raises on purpose, as one tree.

    PenstockError                  a message of four parts: what, where, why, help
    ├── ModelError                 the user's model: unreadable, malformed, inconsistent
    │   └── UnsupportedError       well-formed, but penstock does not take it yet
    ├── TargetError                the target description is wrong or incomplete
    ├── BackendError               an accelerator's description is wrong
    ├── ToolError                  a compiler, simulator or extra package is missing or failed
    ├── OutputError                the output cannot be written
    ├── UsageError                 the command line or call asks for something that does not exist
    ├── CapacityError              it does not fit into the memory
    ├── MismatchError              generated code computes something else than the reference
    └── InternalError              our fault: a broken invariant

Exit codes (design, section 7): 0 done; 1 the model, target or budget; 2 usage; 3 our fault.
"""

from __future__ import annotations

import os
import traceback
from functools import partial


class PenstockError(Exception):
    """An error with a stable `code`, and in the user's words: what, where, why, help.

    >>> print(PenstockError("op-012", "stride is 0, must be at least 1", where='node 3 "conv1"'))
    error[op-012]: stride is 0, must be at least 1
      --> node 3 "conv1"
    """

    exit_code = 1

    def __init__(
        self, code: str, what: str, *, where: str = "", why: str = "", help: str = ""
    ) -> None:
        super().__init__(what)
        self.code = code
        self.what = what
        self.where = where
        self.why = why
        self.help = help

    def at(self, where: str) -> PenstockError:
        """The same error with `where` put before what it already says of its place."""
        joined = f"{where}, {self.where}" if self.where else where
        return type(self)(self.code, self.what, where=joined, why=self.why, help=self.help)

    def __reduce__(self) -> tuple[partial[PenstockError], tuple[()]]:
        """How another process makes it anew."""
        return partial(type(self), **self.parts()), ()

    def parts(self) -> dict[str, str]:
        """Code and parts by name, as --json prints them."""
        names = ("code", "what", "where", "why", "help")
        return {name: getattr(self, name) for name in names}

    def __str__(self) -> str:
        lines = [f"error[{self.code}]: {self.what}"]
        parts = (("  --> ", self.where), ("  why: ", self.why), ("  help: ", self.help))
        return "\n".join(lines + [label + text for label, text in parts if text])


class ModelError(PenstockError):
    """The model is unreadable, malformed or inconsistent."""


class UnsupportedError(ModelError):
    """The model is well-formed, but uses what penstock does not take yet."""


class TargetError(PenstockError):
    """The target description is wrong or incomplete."""


class BackendError(PenstockError):
    """An accelerator's description is wrong; the message is for its author."""


class ToolError(PenstockError):
    """A compiler, a simulator or an optional package is missing or failed."""


class OutputError(PenstockError):
    """The output cannot be written."""


class UsageError(PenstockError):
    """The call or command line asks for something that does not exist."""

    exit_code = 2


class CapacityError(PenstockError):
    """The network does not fit into the memory that it was given."""


class MismatchError(PenstockError):
    """Two rungs of the verification ladder computed different values."""


class InternalError(PenstockError):
    """A broken invariant of penstock itself."""

    exit_code = 3


def internal_error(error: Exception) -> InternalError:
    """What anything but a PenstockError is: our fault, with the line that raised it."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return InternalError(
        "internal-001",
        f"{type(error).__name__}: {error}",
        where=f"{os.path.basename(last.filename)}:{last.lineno}",
        why="this is a mistake in penstock, not in your model",
        help="please report it with the model, or with `penstock show MODEL --stop-after read`",
    )
