"""Families of operators on plain numbers: int32 and float32 without quantisation."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from benchmarks.operators.drawing import Drawing, Shape
from benchmarks.operators.elementwise import Family, broadcast
from tools.tflite_writer import OptionValue, TensorSpec

BOTH = ("float32", "int32")
REAL = ("float32",)


def _output(d: Drawing, shape: Shape, dtype: str) -> int:
    return d.tensor(TensorSpec(f"y{len(d.tensors)}", shape, dtype))


def unary(name: str, d: Drawing) -> None:
    shape = d.choose(d.every_element(), d.shape())
    d.operator(name, (d.plain(shape, "float32"),), _output(d, shape, "float32"))


def binary(name: str, dtypes: tuple[str, ...], clamped: bool, d: Drawing) -> None:
    """Two operands, either of which may be stretched."""
    dtype, shape = d.choose(*dtypes), d.choose(d.every_element(), d.shape())
    shapes = [shape, broadcast(d, shape)]
    if d.chance(0.5):
        shapes.reverse()
    a, b = (d.plain(each, dtype) for each in shapes)
    options: dict[str, OptionValue] = {}
    if clamped:
        options["fused_activation_function"] = d.activation_function()
    d.operator(name, (a, b), _output(d, shape, dtype), **options)


def cast(d: Drawing) -> None:
    shape = d.choose(d.every_element(), d.shape())
    sources = ("float32", "int32", "int16", "bool", "uint8", "int64")
    source, target = d.choose(*sources), d.choose("float32", "int32", "int16", "float32", "int32")
    x = d.condition(shape) if source == "bool" else d.plain(shape, source)
    d.operator("CAST", (x,), _output(d, shape, target))


def gather_nd(d: Drawing) -> None:
    shape = d.shape()
    depth = d.integer(1, len(shape))
    count = d.shape(d.integer(1, 2), most=40)
    places = [d.rng.integers(0, extent, count) for extent in shape[:depth]]
    positions = [list(position) for position in zip(*(p.ravel() for p in places), strict=True)]
    dtype = d.choose("int8", "float32")
    x = d.input(shape) if dtype == "int8" else d.plain(shape, dtype)
    result = (*count, *shape[depth:])
    y = d.same(result, x) if dtype == "int8" else _output(d, result, dtype)
    indices = d.constant(positions)
    spec = d.tensors[indices]
    assert spec.data is not None
    d.tensors[indices] = TensorSpec(
        spec.name, (*count, depth), "int32", data=spec.data.reshape(*count, depth)
    )
    d.operator("GATHER_ND", (x, indices), y)


def embedding_lookup(d: Drawing) -> None:
    rows, count = d.integer(1, 30), d.integer(1, 9)
    indices = d.constant(d.rng.integers(0, rows, count).tolist())
    shape = d.shape(d.integer(1, 2), most=20)
    table = d.plain((rows, *shape), "float32")
    d.operator("EMBEDDING_LOOKUP", (indices, table), _output(d, (count, *shape), "float32"))


def gather(d: Drawing) -> None:
    """Indices are those of the largest elements of other vectors."""
    rank = d.integer(1, 3)
    extent, count = d.integer(1, 9), d.integer(1, 9)
    shape = (*(1,) * (rank - 1), extent, *d.shape(d.integer(1, 2), most=30))
    scores = d.input((count, extent))
    places = d.tensor(TensorSpec("places", (count,), "int32"))
    d.operator("ARG_MAX", (scores, d.constant([1])), places, output_type="INT32")
    x = d.input(shape)
    y = d.same((*shape[: rank - 1], count, *shape[rank:]), x)
    d.operator("GATHER", (x, places), y, axis=rank - 1)


def cumsum(d: Drawing) -> None:
    shape = d.shape()
    axis = d.integer(-len(shape), len(shape) - 1)
    options = {"exclusive": d.chance(0.5), "reverse": d.chance(0.5)}
    if d.chance(0.5):
        x = d.plain(shape, "float32")
        y = _output(d, shape, "float32")
    else:
        x = d.input(shape)
        y = d.output(shape, d.scale_near(d.scale_of(x) * shape[axis]))
    d.operator("CUMSUM", (x, d.constant([axis])), y, **options)


def vectors(name: str, d: Drawing) -> None:
    """An operator along the last axis."""
    shape = d.choose(d.shape(2), d.shape(4), (3, d.integer(100, 300)))
    options: dict[str, OptionValue] = {}
    if name == "SOFTMAX":
        options["beta"] = d.choose(1.0, 1.0, float(2.0 ** d.rng.uniform(-6, 1)))
    x = d.real(shape, 2.0 ** d.integer(-10, -3))
    d.operator(name, (x,), _output(d, shape, "float32"), **options)


def extreme_index(name: str, d: Drawing) -> None:
    shape = d.shape()
    axis = d.integer(0, len(shape) - 1)
    result = (*shape[:axis], *shape[axis + 1 :])
    x, axes = d.plain(shape, "float32"), d.constant([axis])
    d.operator(name, (x, axes), _output(d, result, "int32"), output_type="INT32")


ONLY_PLAIN: Mapping[str, Family] = {
    **{name: partial(unary, name) for name in ("SQRT", "SQUARE", "LOG", "NEG")},
    **{name: partial(unary, name) for name in ("FLOOR", "CEIL", "ROUND")},
    "DIV": partial(binary, "DIV", REAL, True),
    "FLOOR_DIV": partial(binary, "FLOOR_DIV", BOTH, False),
    "FLOOR_MOD": partial(binary, "FLOOR_MOD", ("int32",), False),
    "CAST": cast,
    "GATHER_ND": gather_nd,
    "EMBEDDING_LOOKUP": embedding_lookup,
    "CUMSUM": cumsum,
}
"""Families of operators that take no quantised numbers, by operator name."""

ALSO_PLAIN: Mapping[str, Family] = {
    **{name: partial(unary, name) for name in ("ABS", "RSQRT", "EXP", "ELU", "LOGISTIC", "TANH")},
    **{name: partial(binary, name, BOTH, True) for name in ("ADD", "SUB", "MUL")},
    **{name: partial(binary, name, BOTH, False) for name in ("MAXIMUM", "MINIMUM")},
    "SQUARED_DIFFERENCE": partial(binary, "SQUARED_DIFFERENCE", BOTH, False),
    "RELU": partial(unary, "RELU"),
    "RELU6": partial(unary, "RELU6"),
    "GATHER": gather,
    **{name: partial(vectors, name) for name in ("SOFTMAX", "LOG_SOFTMAX")},
    **{name: partial(extreme_index, name) for name in ("ARG_MAX", "ARG_MIN")},
}
"""Families of operators that also take quantised numbers, by operator name."""

FAMILIES: Mapping[str, Family] = {
    **ONLY_PLAIN,
    **{f"{name} (plain)": family for name, family in ALSO_PLAIN.items()},
}
