"""Constant folding: a node whose inputs are all constant is evaluated once.

One evaluator, the reference evaluator of the package `onnx`, serves every operator of ONNX, on
integers as on real numbers.  The other functions state shapes, which computed tensors need too.
Source: ONNX operator specification.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from penstock.errors import ModelError
from penstock.frontends.onnx.file import FileNode
from penstock.frontends.onnx.operators import operator_schema
from penstock.ir.foreign import MALFORMED
from penstock.ir.tensor import Array
from penstock.limits import SizeLimitError, take

MOST_ELEMENTS = 2**26  # Largest number of elements of a result.
ELEMENT_BYTES = 4  # Of most results.
SHORT = 1000  # Largest number of elements of an input whose values may determine a shape.
# Operators whose results have as many elements as their inputs' values decide, no more than the
# inputs have for each of their axes.
SELECTING = ("Compress", "NonZero", "Unique")
# Operators whose results their inputs do not determine.
UNPREDICTABLE = (
    *("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike"),
    *("RandomUniform", "RandomUniformLike"),
)


_NUMBERS = {"CumSum": (1,), "Range": (0, 1, 2)}
"""Inputs that are numbers, and of which runtimes take lists of one number, which exporters and
ONNX's own functions give."""
_GRAPHS = (onnx.defs.OpSchema.AttrType.GRAPH, onnx.defs.OpSchema.AttrType.GRAPHS)


def folded(node: FileNode, inputs: Sequence[Array | None], opset: int) -> tuple[Array, ...] | None:
    """Results of a node of constants, in its own domain: integers stay integers, and real numbers
    are float32.  None if the operator is not folded.

    `inputs`: elements by position, None for an absent input.  Raises ModelError if the node cannot
    be computed from them, or if a result is too large."""
    if not _is_function(node, opset):
        return None
    inputs = [
        x.reshape(()) if k in _NUMBERS.get(node.name, ()) and x is not None and x.size == 1 else x
        for k, x in enumerate(inputs)
    ]
    try:
        shapes = _result_shapes(_single(node, inputs, opset, with_values=True))
        if any(None in shape for shape in shapes) and node.name not in SELECTING:
            return None
        for shape in shapes:
            elements = math.prod(extent or 0 for extent in shape)
            _check_size(elements)
            take(elements * ELEMENT_BYTES, f"the result of {node.name}, a constant", node.where)
        evaluator = _evaluator(_single(node, inputs, opset, with_values=False))
        return None if evaluator is None else _evaluated(evaluator, inputs)
    except (SizeLimitError, MemoryError):
        raise
    except Exception as error:  # the evaluator fails with any exception
        raise ModelError(
            "onnx-005",
            f"{node.name} cannot be computed from its constants",
            where=node.where,
            why=str(error)[:200] or type(error).__name__,
            help=MALFORMED,
        ) from error


def _is_function(node: FileNode, opset: int) -> bool:
    """Whether ONNX defines the operator as a function of its inputs, without subgraphs."""
    schema = operator_schema(node.name, opset)
    if schema is None or node.name in UNPREDICTABLE:
        return False
    return all(attribute.type not in _GRAPHS for attribute in schema.attributes.values())


def _single(
    node: FileNode, inputs: Sequence[Array | None], opset: int, *, with_values: bool
) -> onnx.ModelProto:
    """A model of one node; `with_values`: its short inputs are constants."""
    opset = min(opset, onnx.defs.onnx_opset_version())
    named = {f"x{k}": x for k, x in enumerate(inputs) if x is not None}
    names = ["" if x is None else f"x{k}" for k, x in enumerate(inputs)]
    outputs = tuple(f"y{k}" for k in range(len(node.outputs)))
    made = proto_of(replace(node, inputs=tuple(names), outputs=outputs), opset)
    short = {name for name, x in named.items() if with_values and x.size <= SHORT}
    graph = helper.make_graph(
        [made],
        "node",
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(x.dtype), list(x.shape)
            )
            for name, x in named.items()
            if name not in short
        ],
        [onnx.ValueInfoProto(name=name) for name in made.output],
        [numpy_helper.from_array(np.asarray(named[name]), name) for name in short],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def proto_of(node: FileNode, opset: int) -> onnx.NodeProto:
    """A node as a protobuf, without subgraphs."""
    found = helper.make_node(node.name, node.inputs, node.outputs)
    schema: Any = operator_schema(node.name, opset)
    for name, value in node.attributes.items():
        formal = schema.attributes.get(name) if schema else None
        if formal.type in _GRAPHS if formal else value == ():  # an empty list of unknown kind
            continue
        kind = formal.type.value if formal else None
        found.attribute.append(helper.make_attribute(name, value, attr_type=kind))
    for name, tensor in node.tensors.items():
        found.attribute.append(helper.make_attribute(name, numpy_helper.from_array(tensor)))
    return found


def _result_shapes(model: onnx.ModelProto) -> list[tuple[int | None, ...]]:
    """Shapes of the results before they are computed; None for an extent that is not known."""
    inferred: Any = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    found: list[tuple[int | None, ...]] = []
    for value in inferred.graph.output:
        type = value.type.tensor_type
        extents = (d.dim_value if d.HasField("dim_value") else None for d in type.shape.dim)
        found.append(tuple(extents) if type.HasField("shape") else (None,))
    return found


def _evaluator(model: onnx.ModelProto) -> ReferenceEvaluator | None:
    """The evaluator of a model of one node; None if it lacks this version of the operator."""
    try:
        return ReferenceEvaluator(model)
    except (NotImplementedError, RuntimeError):
        return None


def _evaluated(evaluator: ReferenceEvaluator, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
    named = {f"x{k}": x for k, x in enumerate(inputs) if x is not None}
    with np.errstate(all="ignore"):
        results: Any = evaluator.run(None, named)
    arrays = [np.asarray(result) for result in results]
    return tuple(x.astype(np.float32) if x.dtype.kind == "f" else x for x in arrays)


def wrong(node: FileNode, what: str) -> ModelError:
    """An error for a malformed node, to be raised by the caller."""
    return ModelError("onnx-005", f"{node.name}: {what}", where=node.where, help=MALFORMED)


def reshaped(
    shape: tuple[int, ...], wanted: tuple[int, ...], zero_is_zero: bool = False
) -> tuple[int, ...]:
    """Output shape of Reshape: 0 keeps an extent, unless `zero_is_zero`; -1 infers one.

    >>> reshaped((2, 3, 4), (0, -1))
    (2, 12)

    Raises ValueError if the numbers of elements differ."""
    found = [
        shape[k] if extent == 0 and not zero_is_zero and k < len(shape) else extent
        for k, extent in enumerate(wanted)
    ]
    if found.count(-1) == 1:
        known = -math.prod(found)
        found[found.index(-1)] = math.prod(shape) // known if known > 0 else 0
    if math.prod(found) != math.prod(shape) or min(found, default=0) < 0:
        raise ValueError(f"{list(shape)} cannot have shape {list(wanted)}")
    return tuple(found)


def squeezed(shape: tuple[int, ...], axes: Sequence[int] | None) -> tuple[int, ...]:
    """Output shape of Squeeze: without `axes`, or without all axes of extent 1.

    Raises ValueError if an axis has another extent."""
    rank = len(shape)
    chosen = {_axis(a, rank) for a in axes} if axes is not None else set(range(rank))
    if axes is not None and any(shape[a] != 1 for a in chosen):
        raise ValueError(f"axes {list(axes)} of {list(shape)} cannot be dropped")
    return tuple(e for a, e in enumerate(shape) if a not in chosen or e != 1)


def unsqueezed(shape: tuple[int, ...], axes: Sequence[int]) -> tuple[int, ...]:
    """Output shape of Unsqueeze: with axes of extent 1 inserted.

    Raises ValueError if an axis occurs twice."""
    rank = len(shape) + len(axes)
    chosen = {_axis(a, rank) for a in axes}
    if len(chosen) != len(axes):
        raise ValueError(f"axes {list(axes)} name one twice")
    rest = iter(shape)
    return tuple(1 if a in chosen else next(rest) for a in range(rank))


def flattened(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """Output shape of Flatten: axes before `axis` merged, and the other axes merged."""
    if not -len(shape) <= axis <= len(shape):
        raise ValueError(f"axis is {axis}, rank is {len(shape)}")
    axis += len(shape) if axis < 0 else 0
    return math.prod(shape[:axis]), math.prod(shape[axis:])


def _axis(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise ValueError(f"axis is {axis}, rank is {rank}")
    return axis % rank


def listed_axes(node: FileNode, inputs: Sequence[Array | None]) -> tuple[int, ...] | None:
    """Axes of a node: an attribute in old opsets, the second input in new ones; None if absent."""
    found = node.attributes.get("axes")
    if found is not None:
        listed = found if isinstance(found, tuple) else (found,)
        if not all(isinstance(a, int) for a in listed):
            raise wrong(node, f"attribute axes is {found!r:.60}, must be integers")
        return tuple(int(a) for a in listed)
    return numbers(inputs[1]) if len(inputs) > 1 and inputs[1] is not None else None


def along(
    node: FileNode, axes: Sequence[int] | None, opset: int, constant: Callable[[Array], str]
) -> FileNode:
    """The node, of one input, along some axes; along all if there are none.  Axes are an attribute
    in old opsets, an input in new ones.

    constant: yields the name of a new constant."""
    if axes is None:
        return node
    schema = operator_schema(node.name, opset)
    if schema is not None and "axes" in schema.attributes:
        return replace(node, attributes={**node.attributes, "axes": tuple(axes)})
    return replace(node, inputs=(*node.inputs, constant(np.array(axes, np.int64))))


def permutation(node: FileNode, rank: int) -> tuple[int, ...]:
    """Permutation of Transpose: input axis by output axis.  Raises ValueError if it is none."""
    found = node.attributes.get("perm", tuple(reversed(range(rank))))
    if not isinstance(found, tuple) or sorted(found) != list(range(rank)):
        raise ValueError(f"perm is {found}, must name each of {rank} axes once")
    return tuple(int(a) for a in found)


def shape_slice(node: FileNode, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Output of Shape: the shape, or the slice of it that the node's attributes select."""
    end = node.attributes.get("end")
    return shape[whole(node, "start", 0) : None if end is None else whole(node, "end", 0)]


def numbers(x: Array) -> tuple[int, ...]:
    """A short list of integers, such as axes or extents.  Raises ValueError for other arrays."""
    if x.dtype.kind not in "iu":
        raise ValueError(f"{x.dtype} elements, must be integers")
    if x.size > 1000:
        raise ValueError(f"{x.size} numbers where axes or extents must be")
    return tuple(int(v) for v in x.ravel())


def whole(node: FileNode, attribute: str, default: int) -> int:
    """An integer attribute.  Raises ValueError for another type."""
    value = node.attributes.get(attribute, default)
    if not isinstance(value, int):
        raise ValueError(f"attribute {attribute} is {value!r:.60}, must be an integer")
    return value


def _check_size(elements: int) -> None:
    if elements > MOST_ELEMENTS:
        raise ValueError(f"it has {elements} elements, at most {MOST_ELEMENTS} are computed")
