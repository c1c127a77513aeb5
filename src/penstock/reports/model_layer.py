"""ModelLayer: an operator of the model file, with the steps of the schedule that compute it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from penstock.brief import Brief
from penstock.ir.graph import Graph
from penstock.ir.stated_attribute import StatedAttribute
from penstock.reports.json_value import Json
from penstock.reports.layer_report import LayerReport
from penstock.reports.layer_tensor import LayerTensor, TensorRole

NO_BYTES: Mapping[str, int] = {}


@dataclass(frozen=True, repr=False)
class ModelLayer(Brief):
    """A layer of the model. Its figures are the sums over its steps.

    Most layers are one step. A cascade in bands of columns computes a layer in several steps, and
    some operators are divided into several parts. Parts that the compiler inserts, such as
    conversions of layouts, are layers of their own.

    kind: the operator.
    steps: the steps that compute it, in execution order.
    indices: their places among all steps.
    weight_bytes: constants that are stored for it: weights, bias, and the tables of its kernels.
    live_bytes: maximum of the live bytes of the arena while it runs; None if it has no calls.
    """

    kind: str
    steps: tuple[LayerReport, ...]
    indices: tuple[int, ...]
    weight_bytes: int = 0
    live_bytes: int | None = None

    @cached_property
    def main(self) -> LayerReport:
        """The step with the most cycles among those that compute elements of its output."""
        computing = [one for one in self.steps if not one.moves]
        return max(computing or self.steps, key=lambda one: one.cycles)

    @property
    def last(self) -> LayerReport:
        """The last step that computes elements of its output."""
        computing = [one for one in self.steps if not one.moves]
        return (computing or self.steps)[-1]

    @property
    def name(self) -> str:
        return self.last.name

    @property
    def attributes(self) -> tuple[StatedAttribute, ...]:
        """Those of the operator that computes its output."""
        return self.last.attributes

    @property
    def tensors(self) -> tuple[LayerTensor, ...]:
        """The whole tensors that it reads and writes, without those between its steps."""
        own = {one.name for one in self.steps}
        found = dict[str, LayerTensor]()
        for one in self.steps:
            for tensor in one.tensors:
                is_result = one is self.last and tensor.role is TensorRole.OUTPUT
                if is_result or tensor.name not in own:
                    found.setdefault(tensor.name, tensor)
        return tuple(found.values())

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of its whole output."""
        outputs = (one.shape for one in self.last.tensors if one.role is TensorRole.OUTPUT)
        return next(outputs, self.last.shape)

    @property
    def step(self) -> int | None:
        """Number of its first step in the program; None if none of them has a number."""
        return min(self.numbers, default=None)

    @property
    def numbers(self) -> tuple[int, ...]:
        """Numbers of its steps in the program."""
        return tuple(one.step for one in self.steps if one.step is not None)

    @property
    def engine(self) -> str:
        return self.main.engine

    @property
    def offloaded(self) -> bool:
        """Whether an accelerator runs any of its steps."""
        return any(one.offloaded for one in self.steps)

    @property
    def kernels(self) -> tuple[str, ...]:
        """The kernels of its steps, that of the main step first."""
        return tuple(dict.fromkeys((self.main.kernel, *(one.kernel for one in self.steps))))

    @property
    def calls(self) -> int:
        return sum(one.calls for one in self.steps)

    @property
    def macs(self) -> int:
        return sum(one.macs for one in self.steps)

    @property
    def cycles(self) -> int:
        return sum(one.cycles for one in self.steps)

    @property
    def read_bytes(self) -> int:
        return sum(one.read_bytes for one in self.steps)

    @property
    def written_bytes(self) -> int:
        return sum(one.written_bytes for one in self.steps)

    @property
    def moved_bytes(self) -> int:
        return sum(one.moved_bytes for one in self.steps)

    @property
    def factor(self) -> float:
        """F: computed elements as a multiple of those of its output, over all bands."""
        return self.main.factor

    @property
    def limit(self) -> str | None:
        """The resource that limits its main step, or None if the backend states no breakdown."""
        return self.main.limit

    @property
    def utilisation(self) -> float | None:
        """Utilisation of the accelerator's multipliers, or None if the backend does not state
        their number."""
        breakdown = self.main.breakdown
        return breakdown and breakdown.utilisation(self.macs, self.cycles)

    def as_json(self) -> dict[str, Json]:
        """Return the layer as a JSON object; `steps` are indices into the list of steps."""
        return {
            "name": self.name,
            "operator": self.kind,
            "origin": self.main.origin,
            "steps": list(self.indices),
            "engine": self.engine,
            "kernels": list(self.kernels),
            "shape": list(self.shape),
            "calls": self.calls,
            "macs": self.macs,
            "factor": self.factor,
            "cycles": self.cycles,
            "moved_bytes": self.moved_bytes,
            "weight_bytes": self.weight_bytes,
            "live_bytes": self.live_bytes,
        }


def model_layers(
    steps: Sequence[LayerReport],
    model: Graph | None = None,
    stored: Mapping[str, int] = NO_BYTES,
    live: Mapping[str, int] = NO_BYTES,
) -> tuple[ModelLayer, ...]:
    """Return the layers in the order of the model's nodes; without a model, in that of the steps.

    Steps that no node of the model describes are layers that precede their first reader.
    `stored` maps tensors to the bytes of constants, `live` to the live bytes while they are
    computed.
    """
    groups: dict[str, list[int]] = {}
    for index, one in enumerate(steps):
        groups.setdefault(one.origin or f"\n{one.name}", []).append(index)
    nodes = {} if model is None else {node.origin: node for node in model.nodes}
    places = {origin: place for place, origin in enumerate(nodes)}
    positions = _positions(steps, places)
    order = groups.values()
    if model is not None:
        order = sorted(order, key=lambda own: positions[own[0]])
    found: list[ModelLayer] = []
    for own in order:
        some = tuple(steps[index] for index in own)
        node = nodes.get(some[0].origin)
        names = {one.name for one in some}
        found.append(
            ModelLayer(
                _kind(some, None if node is None else node.kind),
                some,
                tuple(own),
                sum(stored.get(name, 0) for name in names),
                max((live[name] for name in names if name in live), default=None),
            )
        )
    return tuple(found)


def layer_indices(layers: Iterable[ModelLayer]) -> Mapping[int, int]:
    """Return the index of the layer of each step, by index of the step."""
    return {step: index for index, one in enumerate(layers) for step in one.indices}


def _positions(steps: Sequence[LayerReport], places: Mapping[str, int]) -> Sequence[int]:
    """Return the position of each step in the model: that of its node, or of its first reader."""
    found = [places.get(one.origin, len(places)) for one in steps]
    for index in reversed(range(len(steps))):  # readers before what they read
        for source in steps[index].reads:
            if source >= 0 and steps[source].origin not in places:
                found[source] = min(found[source], found[index])
    return found


def _kind(steps: Sequence[LayerReport], in_model: str | None) -> str:
    """Return the operator of a layer: that of its steps, or else that of the model's node."""
    kinds = {one.kind for one in steps if not one.moves}
    if len(kinds) == 1:
        return kinds.pop()
    return in_model or steps[-1].kind
