"""SharedRelu: ReLUs before convolutions; all readers of a tensor share one."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Value
from penstock.ops.relu import Relu


@dataclass(frozen=True, slots=True)
class SharedRelu:
    """The ReLUs added so far, by the name of their input."""

    net: GraphBuilder
    found: dict[str, Value] = field(default_factory=dict[str, Value])

    def __call__(self, x: Value) -> Value:
        """The ReLU of x, which is added on the first call."""
        if x.name not in self.found:
            self.found[x.name] = self.net.apply(Relu(), x, name=f"{x.name}/relu")
        return self.found[x.name]
