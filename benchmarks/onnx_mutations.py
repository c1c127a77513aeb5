"""Mutations of ONNX models: of numbers, names and nodes of the protobuf.

Each changes the bytes of a file in place, or leaves them unchanged if they are no longer a
model.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import onnx

from benchmarks.drawn_names import drawn_name

Change = Callable[[Any, Random], str]

_SIZES = (-(2**31), -2, -1, 0, 1, 2, 3, 4, 7, 64, 255, 2**16, 2**24, 2**30, 2**31 - 1, 2**63 - 1)
_REALS = (0.0, -1.0, math.nan, math.inf, -math.inf, 1e-45, 1e-38, 3e38, 1.0, 1 / 256)
_OPERATORS = (
    "Add", "AveragePool", "BatchNormalization", "Cast", "Clip", "Concat", "Conv", "Flatten",
    "GRU", "Gather",
    "Gemm", "GlobalAveragePool", "Identity", "LSTM", "MatMul", "MaxPool", "Mul", "Pad", "PRelu",
    "QLinearConv", "QuantizeLinear", "DequantizeLinear", "ReduceMean", "Relu", "Reshape", "Resize",
    "Shape", "Sigmoid", "Slice", "Softmax", "Split", "Squeeze", "Transpose", "Unsqueeze", "If",
)  # fmt: skip


def changed(change: Change, raw: bytearray, random: Random) -> str:
    """The bytes of the changed model."""
    try:
        model: Any = onnx.ModelProto.FromString(bytes(raw))
    except Exception:  # whatever the protobuf runtime raises: another mutation came before
        return "no model"
    story = change(model, random)
    raw[:] = model.SerializeToString()
    return story


def number(model: Any, random: Random) -> str:
    """Changes one number; each kind of field is equally likely."""
    places = list(_numbers(model))
    kinds = sorted({f"{type(m).__name__}.{name}" for m, name, _ in places})
    kind = random.choice(kinds)
    message, name, k = random.choice([p for p in places if f"{type(p[0]).__name__}.{p[1]}" == kind])
    old = getattr(message, name) if k is None else getattr(message, name)[k]
    flipped = int(old) ^ 1 << random.randrange(31) if isinstance(old, int) else 0
    values = _REALS if isinstance(old, float) else (*_SIZES, old + 1, old - 1, old * 2, flipped)
    new = random.choice(values)
    try:
        if k is None:
            setattr(message, name, new)
        else:
            getattr(message, name)[k] = new
    except (ValueError, OverflowError):
        return f"{kind} takes no {new}"
    return f"{kind} from {old} to {new}"


def _numbers(message: Any) -> Iterator[tuple[Any, str, int | None]]:
    """(message, field, index or None) of every number below a message, except raw data."""
    for descriptor, value in message.ListFields():
        items = list(value) if _is_list(value) else [value]
        for k, item in enumerate(items):
            if hasattr(item, "ListFields"):
                yield from _numbers(item)
            elif isinstance(item, int | float):
                yield message, descriptor.name, k if _is_list(value) else None


def _is_list(value: Any) -> bool:
    return hasattr(value, "append") or hasattr(value, "add")


def constant(model: Any, random: Random) -> str:
    """Changes a number in a small constant: a scale, an axis, an extent."""
    small = [t for t in model.graph.initializer if 0 < len(t.raw_data) <= 64]
    if not small:
        return "no constant"
    chosen = random.choice(small)
    size = {1: 4, 7: 8, 6: 4}.get(chosen.data_type, 1)
    at = random.randrange(max(1, len(chosen.raw_data) // size)) * size
    if chosen.data_type == onnx.TensorProto.FLOAT:
        part = struct.pack("<f", random.choice(_REALS))
    else:
        part = (random.choice(_SIZES) % 256**size).to_bytes(size, "little")
    data = bytearray(chosen.raw_data)
    data[at : at + size] = part
    chosen.raw_data = bytes(data[: len(chosen.raw_data)])
    return f"constant {chosen.name} at {at} set to {part.hex()}"


def extent(model: Any, random: Random) -> str:
    """Replaces an extent in the shapes of all constants and inputs."""
    graph = model.graph
    dims = [(t.dims, k) for t in graph.initializer for k in range(len(t.dims))]
    if not dims:
        return "no extent"
    chosen, k = random.choice(dims)
    old, new = chosen[k], random.choice((0, 1, 2, 5, 33, 1000, 2**16, 2**20, 2**31))
    for each, index in dims:
        if each[index] == old:
            each[index] = new
    for value in graph.input:
        for dimension in value.type.tensor_type.shape.dim:
            if dimension.dim_value == old:
                dimension.dim_value = new
    return f"extent {old} everywhere {new}"


def opened(model: Any, random: Random) -> str:
    """Leaves an extent of an input open, or removes its shape."""
    value = random.choice(list(model.graph.input))
    shape = value.type.tensor_type.shape
    if not shape.dim or random.random() < 0.2:
        value.type.tensor_type.ClearField("shape")
        return f"{value.name} without a shape"
    dimension = random.choice(list(shape.dim))
    dimension.dim_param = "batch"
    return f"{value.name} left open"


def edge(model: Any, random: Random) -> str:
    """Changes the input or output of a node: cycles, duplicate names, missing tensors."""
    nodes = [n for n in model.graph.node if n.input]
    if not nodes:
        return "no node"
    names = [n for node in nodes for n in (*node.input, *node.output)]
    names += [t.name for t in model.graph.initializer] + ["", "nowhere"]
    node = random.choice(nodes)
    side = node.output if random.random() < 0.2 and node.output else node.input
    k, new = random.randrange(len(side)), random.choice(names)
    old, side[k] = side[k], new
    return f"{node.op_type}: {old} becomes {new}"


def rename(model: Any, random: Random) -> str:
    """Renames tensors everywhere."""
    graph = model.graph
    known = sorted({n for node in graph.node for n in (*node.input, *node.output) if n})
    if not known:
        return "no names"
    chosen = random.sample(known, random.randint(1, len(known)))
    new: dict[str, str] = {}
    for old in chosen:
        name = drawn_name(known, random)
        while name in (*known, *new.values()):  # `edge` makes tensors that are written twice
            name += "_"
        new[old] = name
    for node in graph.node:
        for side in (node.input, node.output):
            side[:] = [new.get(name, name) for name in side]
    for each in (*graph.initializer, *graph.input, *graph.output, *graph.value_info):
        each.name = new.get(each.name, each.name)
    return f"renamed {new}"


def operator(model: Any, random: Random) -> str:
    """Changes the operator of a node."""
    if not model.graph.node:
        return "no node"
    node = random.choice(list(model.graph.node))
    old, node.op_type = node.op_type, random.choice(_OPERATORS)
    return f"{old} becomes {node.op_type}"


def attribute(model: Any, random: Random) -> str:
    """Removes or renames an attribute, or changes the number of its values."""
    nodes = [n for n in model.graph.node if n.attribute]
    if not nodes:
        return "no attribute"
    node = random.choice(nodes)
    k = random.randrange(len(node.attribute))
    chosen, kind = node.attribute[k], random.randrange(4)
    story = f"{node.op_type}.{chosen.name}"
    if kind == 0:
        del node.attribute[k]
        return f"{story} gone"
    if kind == 1:
        chosen.name = random.choice(("axis", "axes", "pads", "perm", "group", "kernel_shape"))
        return f"{story} called {chosen.name}"
    if kind == 2 and chosen.ints:
        chosen.ints.append(random.choice(_SIZES))
        return f"{story} longer"
    chosen.type = random.randrange(12)
    return f"{story} of kind {chosen.type}"


def node(model: Any, random: Random) -> str:
    """Removes, duplicates or swaps nodes."""
    nodes = model.graph.node
    if len(nodes) < 2:
        return "no nodes"
    k, other, kind = random.randrange(len(nodes)), random.randrange(len(nodes)), random.randrange(3)
    story = nodes[k].op_type
    if kind == 0:
        del nodes[k]
        return f"{story} {k} gone"
    if kind == 1:
        nodes.append(nodes[k])
        return f"{story} {k} stands twice"
    copy = type(nodes[k])()
    copy.CopyFrom(nodes[k])
    nodes[k].CopyFrom(nodes[other])
    nodes[other].CopyFrom(copy)
    return f"nodes {k} and {other} change places"


def kind_of_data(model: Any, random: Random) -> str:
    """Changes the element type or the storage of a constant."""
    if not model.graph.initializer:
        return "no constant"
    chosen = random.choice(list(model.graph.initializer))
    if random.random() < 0.2:
        chosen.data_location = chosen.EXTERNAL
        return f"{chosen.name} lies elsewhere"
    old, chosen.data_type = chosen.data_type, random.randrange(30)
    return f"{chosen.name} of type {old} becomes {chosen.data_type}"
