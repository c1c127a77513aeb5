"""Network: an architecture with options; the options are dataclass fields with ranges."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import Field, field, fields
from typing import Any, ClassVar, TypeVar, cast

from penstock.errors import UsageError
from penstock.frontends.builder import GraphBuilder
from penstock.frontends.calibration import SeededRandom
from penstock.frozen import frozen
from penstock.ir.graph import Graph, Value
from penstock.ops.unary import Relu

Number = int | float
N = TypeVar("N", int, float)


def option(default: N, lower: N, upper: N) -> N:
    """A dataclass field for an option with values in [lower, upper]."""
    return field(default=default, metadata={"lower": lower, "upper": upper})


def choice(default: N, *others: N) -> N:
    """A dataclass field for an option with the given values."""
    return field(default=default, metadata={"choices": (default, *others)})


@frozen
class Option:
    """An option that users may set: name, default, and a description of its range."""

    name: str
    default: Number
    allowed: str

    def accepts(self, value: object, metadata: Mapping[str, Any]) -> bool:
        """Whether the value is in the range and has the default's type; int is accepted for
        float."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        if isinstance(self.default, int) and not isinstance(value, int):
            return False
        if "choices" in metadata:
            return value in metadata["choices"]
        return bool(metadata["lower"] <= value <= metadata["upper"])


@frozen(kw_only=True)
class Network(ABC):
    """Base of the networks; each file of this folder defines one, with `NAME`, options and graph.

    The first line of a class' docstring describes the network; the line that starts with "Source:"
    states the origin of the architecture.
    """

    NAME: ClassVar[str] = ""

    seed: int = option(0, 0, 2**32 - 1)

    def __post_init__(self) -> None:
        """Raises UsageError if the value of an option is out of range."""
        for each in fields(self):
            described, value = described_option(each), getattr(self, each.name)
            if not described.accepts(value, each.metadata):
                raise option_error(self.NAME, described, repr(value))

    @abstractmethod
    def graph(self) -> Graph:
        """The graph, with random weights."""


def described_option(each: Field[Any]) -> Option:
    """The option of a dataclass field made by `option` or `choice`."""
    metadata = each.metadata
    if "choices" in metadata:
        allowed = " or ".join(str(c) for c in metadata["choices"])
    else:
        kind = "an integer" if isinstance(each.default, int) else "a number"
        allowed = f"{kind} from {metadata['lower']} to {metadata['upper']}"
    return Option(each.name, cast(Number, each.default), allowed)


def option_error(network: str, described: Option, found: str) -> UsageError:
    """An error for a value outside the range of an option, to be raised by the caller."""
    return UsageError(
        "usage-113",
        f"option {described.name} is {found}, must be {described.allowed}",
        where=f"zoo:{network}",
        help=f"the default is {described.default}",
    )


# What several networks of the zoo share: numbers of samples, random numbers by name, ReLUs.


PIXELS = 2 * 224**2  # Approximate number of pixels of all calibration inputs.
MOST_SAMPLES = 16
STREAM = 2  # Of random numbers; the graph builder uses streams 0 and 1.


def sample_count(resolution: int) -> int:
    """Number of calibration inputs for images of `resolution`; few, since every command rebuilds
    the network.

    >>> sample_count(32), sample_count(128), sample_count(224)
    (16, 6, 2)
    """
    return max(1, min(MOST_SAMPLES, PIXELS // resolution**2))


def begun(network: Network, resolution: int, channels: int = 3) -> tuple[GraphBuilder, Value]:
    """The builder of a network of square images, and its input."""
    net = GraphBuilder(network.NAME, network.seed, sample_count(resolution))
    return net, net.input((1, resolution, resolution, channels))


def classified(net: GraphBuilder, x: Value, classes: int) -> Graph:
    """The network that ends in the mean of each channel, a dense layer and softmax."""
    x = net.global_average_pool(x, name="pool")
    return scored(net, net.fully_connected(x, classes, name="logits"))


def scored(net: GraphBuilder, logits: Value) -> Graph:
    """The network that ends in softmax."""
    return net.build(net.softmax(logits, name="scores"))


def named_random(seed: int, name: str) -> SeededRandom:
    """The random source of a node by its name, for constants that the graph builder does not draw
    itself."""
    return SeededRandom(seed, STREAM, zlib.crc32(name.encode()))


@frozen
class SharedRelu:
    """ReLUs before convolutions; all readers of a tensor share one.

    found: the ReLUs added so far, by the name of their input.
    """

    net: GraphBuilder
    found: dict[str, Value] = field(default_factory=dict[str, Value])

    def __call__(self, x: Value) -> Value:
        """The ReLU of x, which is added on the first call."""
        if x.name not in self.found:
            self.found[x.name] = self.net.apply(Relu(), x, name=f"{x.name}/relu")
        return self.found[x.name]
