"""ForeignModel: a decoded model file, before its nodes are imported.

Decoders create it without knowledge of operators; operator files import its nodes by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace

from penstock.errors import ComputedError, ModelError, UnsupportedError
from penstock.frozen import frozen
from penstock.ir.graph import Value, Values
from penstock.ir.op import Op
from penstock.ir.tensor import Array

MALFORMED = "convert the model again; if another runtime accepts this file, please report it"
EXPORT_FOR_INFERENCE = "export the model for inference; in torch, after model.eval()"
Attribute = int | float | bool | str | tuple[int | float, ...] | tuple[str, ...]


@frozen
class ForeignNode:
    """A node of a model file.  Absent optional inputs are None.

    `attributes`: the format's attributes in snake case, such as "stride_h".  `handles`: indices, in
    the file, of the operands that are handles of state variables; they are in neither `inputs` nor
    `outputs`.  `variables`: by position in `inputs`, the file's variable tensors, which
    keep their elements from one inference to the next, and which the node may overwrite.
    `unsigned`: its 8-bit tensors are uint8 in the file, and int8 here: elements and zero points are
    less by 128.  The arithmetic is that of TFLite's kernels for uint8.
    `open`: the outputs of whose shapes the file leaves extents open, such as the batch; it states
    them as 1.
    """

    name: str
    where: str
    inputs: tuple[Value | None, ...]
    outputs: Values
    attributes: Mapping[str, Attribute]
    handles: tuple[int, ...] = ()
    variables: Mapping[int, Value] = field(default_factory=dict)
    unsigned: bool = False
    open: frozenset[int] = frozenset()

    def integer(self, attribute: str, default: int = 0) -> int:
        """An integer or boolean attribute."""
        value = self.attributes.get(attribute, default)
        if not isinstance(value, int):
            raise ModelError(
                "model-011",
                f"attribute {attribute} is {value!r}, must be an integer",
                where=self.where,
                help=MALFORMED,
            )
        return int(value)

    def real(self, attribute: str, default: float = 0.0) -> float:
        value = self.attributes.get(attribute, default)
        if not isinstance(value, int | float):
            raise ModelError(
                "model-011",
                f"attribute {attribute} is {value!r}, must be a number",
                where=self.where,
                help=MALFORMED,
            )
        return float(value)

    def choice(self, attribute: str, names: tuple[str, ...]) -> str:
        """An enumeration attribute, which the file stores as an index into `names`."""
        index = self.integer(attribute)
        if not 0 <= index < len(names):
            raise ModelError(
                "model-012",
                f"attribute {attribute} is {index}, must be within [0, {len(names)})",
                where=self.where,
                help=MALFORMED,
            )
        return names[index]

    def require_count(self, attribute: str, found: int, of: str) -> None:
        """Raises ModelError unless an attribute states the number of inputs or outputs of the
        node."""
        stated = self.integer(attribute, found)
        if stated != found:
            raise ModelError(
                "model-011",
                f"attribute {attribute} is {stated}, must be {found}, the number of {of}",
                where=self.where,
                help=MALFORMED,
            )

    def input(self, k: int) -> Value:
        """Input k.  Raises ModelError if it is absent."""
        value = self.inputs[k] if k < len(self.inputs) else None
        if value is None:
            raise ModelError(
                "model-013",
                f"{self.name} has {len(self.inputs)} inputs, input {k} is missing",
                where=self.where,
                help=MALFORMED,
            )
        return value

    def optional(self, k: int) -> Value | None:
        """Input k, or None if it is absent."""
        return self.inputs[k] if k < len(self.inputs) else None

    @property
    def x(self) -> Value:
        """Input 0, as `input` has it."""
        return self.input(0)

    @property
    def y(self) -> Value:
        """Output 0, as `output` has it."""
        return self.output(0)

    def output(self, k: int) -> Value:
        """Output k.  Raises ModelError if it is absent."""
        if k >= len(self.outputs):
            raise ModelError(
                "model-013",
                f"{self.name} has {len(self.outputs)} outputs, output {k} is missing",
                where=self.where,
                help=MALFORMED,
            )
        return self.outputs[k]

    def state(self, k: int) -> Value:
        """Input k, a variable tensor, as it is before the node.  The importer yields a node that
        computes the elements after it (`Made.assigns`).  Raises ModelError for other inputs."""
        value = self.input(k)
        if k not in self.variables:
            raise ModelError(
                "model-014",
                f'input {k} "{value.name}" is not a variable tensor',
                where=self.where,
                why=f"{self.name} keeps its state there",
                help=MALFORMED,
            )
        return value

    def reading(self, others: Mapping[str, Value]) -> ForeignNode:
        """The node that reads other values in place of those of these names."""
        inputs = tuple(value and others.get(value.name, value) for value in self.inputs)
        return replace(self, inputs=inputs)

    def constant(self, k: int) -> Array:
        """Elements of input k.  Raises UnsupportedError if it is computed."""
        value = self.input(k)
        if value.data is None:
            raise self.computed(f'input {k} "{value.name}" is computed')
        return value.array

    def constant_ints(self, k: int) -> tuple[int, ...]:
        """Elements of input k, a flat tuple.  Raises UnsupportedError unless constant integers."""
        array = self.constant(k)
        if array.dtype.kind not in "iu":
            raise self.unsupported(f"input {k} holds {array.dtype}, must hold integers")
        return tuple(int(x) for x in array.ravel())

    def unsupported(self, what: str, *, help: str = "") -> UnsupportedError:
        """Returns an error for a well-formed but unsupported node; the caller raises it."""
        return UnsupportedError(
            "model-020",
            f"{self.name}: {what}",
            where=self.where,
            help=help or "`penstock ops` lists what is supported",
        )

    def computed(self, what: str) -> ComputedError:
        """Returns an error for an operand that must be constant; the caller raises it."""
        help = "make it, or what it is computed from, a constant of the model"
        return ComputedError.of(self.unsupported(f"{what}, must be constant", help=help))


@frozen
class Made:
    """A graph node that an operator file has created from a foreign node.

    `assigns`: position of the variable tensor among the inputs of the foreign node whose new
    elements are the output; the output has its shape and element type.
    `before`: that tensor as the nodes read it, if its elements are in another order or shape than
        in the file.
    """

    op: Op
    inputs: Values
    output: Value
    assigns: int | None = None
    before: Value | None = None


Nodes = Iterable[Made]


@frozen
class ForeignSubgraph:
    """The body or the condition of a control-flow operator: nodes in the file's order."""

    inputs: Values
    outputs: Values
    nodes: tuple[ForeignNode, ...]


@frozen
class ForeignModel:
    """A decoded model file: nodes in the file's order.

    `initial_nodes`: the nodes that run once, before the first inference, by subgraph.
    `subgraphs`: those that control flow refers to, by index.
    """

    name: str
    inputs: Values
    outputs: Values
    nodes: tuple[ForeignNode, ...]
    initial_nodes: Mapping[int, tuple[ForeignNode, ...]] = field(default_factory=dict)
    subgraphs: Mapping[int, ForeignSubgraph] = field(default_factory=dict)
