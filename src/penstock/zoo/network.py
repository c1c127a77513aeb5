"""Network: an architecture as a frozen value; its fields are its options, with their ranges."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, ClassVar, TypeVar, cast

from penstock.errors import UsageError
from penstock.ir.graph import Graph

Number = int | float
N = TypeVar("N", int, float)


def option(default: N, lower: N, upper: N) -> N:
    """A field with values in [lower, upper]."""
    return field(default=default, metadata={"lower": lower, "upper": upper})


def choice(default: N, *others: N) -> N:
    """A field with one of a few values."""
    return field(default=default, metadata={"choices": (default, *others)})


@dataclass(frozen=True, slots=True)
class Option:
    """What a user may set: its name, its default, and its range in words."""

    name: str
    default: Number
    allowed: str

    def accepts(self, value: object, metadata: Mapping[str, Any]) -> bool:
        """Whether the value has the default's type (a whole number is a real one, too) and lies in
        the range."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        if isinstance(self.default, int) and not isinstance(value, int):
            return False
        if "choices" in metadata:
            return value in metadata["choices"]
        return bool(metadata["lower"] <= value <= metadata["upper"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Network(ABC):
    """What every file of this folder defines one of: `NAME`, options, and the graph.

    The class' docstring says in its first line what it is, and in the line that begins with
    "Source:" where its architecture is from.
    """

    NAME: ClassVar[str] = ""

    seed: int = option(0, 0, 2**32 - 1)

    def __post_init__(self) -> None:
        """Raises UsageError where an option has a value that it cannot have."""
        for each in fields(self):
            described, value = described_option(each), getattr(self, each.name)
            if not described.accepts(value, each.metadata):
                raise wrong_value(self.NAME, described, repr(value))

    @abstractmethod
    def graph(self) -> Graph:
        """The graph with drawn weights."""


def described_option(each: Field[Any]) -> Option:
    """What a dataclass field made by `option` or `choice` says."""
    metadata = each.metadata
    if "choices" in metadata:
        allowed = " or ".join(str(c) for c in metadata["choices"])
    else:
        kind = "a whole number" if isinstance(each.default, int) else "a number"
        allowed = f"{kind} from {metadata['lower']} to {metadata['upper']}"
    return Option(each.name, cast(Number, each.default), allowed)


def wrong_value(network: str, described: Option, found: str) -> UsageError:
    """The error that an option has a value that it cannot have; to be raised by the caller."""
    return UsageError(
        "usage-113",
        f"option {described.name} is {found}, must be {described.allowed}",
        where=f"zoo:{network}",
        help=f"leave it out for {described.default}",
    )
