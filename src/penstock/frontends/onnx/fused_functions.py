"""Definitions, by ONNX's operators, of those into which onnxruntime's optimisers fuse several.

    FusedConv, FusedGemm               a layer and its activation
    FusedMatMul, TransposeMatMul       a product of transposed matrices, times a number
    BiasGelu, FastGelu, QuickGelu      activations
    SkipLayerNormalization, ..         a sum and its normalisation
    MatMulIntegerToFloat,              products of dynamically quantised matrices
    DynamicQuantizeMatMul

Source: ContribOperators.md of onnxruntime.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.frontends.onnx.definitions import Define, Definition

_ACTIVATIONS: Mapping[str, tuple[str, ...]] = {
    "Relu": (), "Tanh": (), "Sigmoid": (), "LeakyRelu": ("alpha",), "Clip": ("min", "max"),
    "HardSigmoid": ("alpha", "beta"),
}  # fmt: skip
"""Names of the parameters of activations."""


def _activated(new: Definition, x: str, parameters: tuple[float, ...]) -> bool:
    """Defines the node as its attribute `activation` of `x`; False if that is not known."""
    name = str(new.node.attributes.get("activation", ""))
    names = _ACTIVATIONS.get(name)
    if names is None or len(parameters) < len(names):
        return False
    stated = dict(zip(names, parameters, strict=False))
    if name == "Clip":
        new.name_output(new.made(name, x, stated["min"], stated["max"]))
    else:
        new.name_output(new.made(name, x, **stated))
    return True


def _fused_conv(new: Definition) -> bool:
    own = ("activation", "activation_params")
    plain = {key: x for key, x in new.node.attributes.items() if key not in own}
    y = new.made("Conv", *(name for name in new.node.inputs[:3] if name), **plain)
    if addend := new.given(3):
        y = new.made("Add", y, addend)
    found = new.node.attributes.get("activation_params", ())
    parameters = tuple(x for x in found if isinstance(x, float)) if isinstance(found, tuple) else ()
    return _activated(new, y, parameters)


def _fused_gemm(new: Definition) -> bool:
    attributes = new.node.attributes
    plain = {key: x for key, x in attributes.items() if not key.startswith("activation")}
    y = new.made("Gemm", *new.node.inputs, **plain)
    stated = (attributes.get(f"activation_{key}") for key in ("alpha", "beta", "gamma"))
    return _activated(new, y, tuple(x for x in stated if isinstance(x, float)))


def _fused_product(new: Definition) -> bool:
    """False if a shape is not known."""
    operands: list[str] = []
    for k, side in enumerate("AB"):
        shape = new.shapes.get(new.given(k))
        if shape is None:
            return False
        *others, rows, columns = range(len(shape)) if len(shape) > 1 else (0, 0)
        if new.node.attributes.get(f"transBatch{side}") and others:  # axis 0 becomes the rows
            others, rows = [*others[1:], rows], others[0]
        if new.node.attributes.get(f"trans{side}"):
            rows, columns = columns, rows
        order = (*others, rows, columns)
        is_same = len(shape) < 2 or order == tuple(range(len(shape)))
        given = new.given(k)
        operands.append(given if is_same else new.made("Transpose", given, perm=order))
    y = new.made("MatMul", *operands)
    if (factor := new.number("alpha", 1.0)) != 1:
        y = new.made("Mul", y, factor)
    new.name_output(y)
    return True


def _quick_gelu(new: Definition) -> bool:
    x = new.given(0)
    inner = new.made("Mul", x, new.number("alpha", 1.702))
    new.name_output(new.made("Mul", x, new.made("Sigmoid", inner)))
    return True


def _biased_gelu(approximate: str) -> Define:
    def define(new: Definition) -> bool:
        x, bias = new.given(0), new.given(1)
        biased = new.made("Add", x, bias) if bias else x
        new.name_output(new.made("Gelu", biased, approximate=approximate))
        return True

    return define


def _normalised(
    new: Definition, x: str, scale: str, bias: str, epsilon: float, *, centred: bool
) -> str:
    """The normalisation of `x` along its last axis."""
    if centred:
        inputs = (x, scale, bias) if bias else (x, scale)
        return new.made("LayerNormalization", *inputs, epsilon=epsilon)
    square = new.made_along("ReduceMean", new.made("Mul", x, x), -1)
    root = new.made("Sqrt", new.made("Add", square, epsilon))
    return new.made("Mul", new.made("Div", x, root), scale)


def _skipped(*, centred: bool) -> Define:
    """A sum of two tensors and a bias, normalised; the sum is output 3."""

    def define(new: Definition) -> bool:
        if any(new.node.outputs[1:3]):  # mean and deviation, for training
            return False
        beta, bias = (new.given(3), new.given(4)) if centred else ("", new.given(3))
        total = new.made("Add", new.given(0), new.given(1))
        if bias:
            total = new.made("Add", total, bias)
        epsilon = new.number("epsilon", 1e-12)
        y = _normalised(new, total, new.given(2), beta, epsilon, centred=centred)
        new.name_output(y)
        new.name_output(total, 3)
        return True

    return define


def _simplified(new: Definition) -> bool:
    if any(new.node.outputs[1:]) or new.node.attributes.get("axis", -1) != -1:
        return False
    epsilon = new.number("epsilon", 1e-5)
    y = _normalised(new, new.given(0), new.given(1), "", epsilon, centred=False)
    new.name_output(y)
    return True


def _integers_to_real(new: Definition) -> bool:
    a, b, scale_a, scale_b, zero_a, zero_b, bias = (new.given(k) for k in range(7))
    return _real_product(new, (a, b, zero_a, zero_b), (scale_a, scale_b), bias)


def _dynamic_product(new: Definition) -> bool:
    x, b, scale_b, zero_b, bias = (new.given(k) for k in range(5))
    a, scale_a, zero_a = new.made_all("DynamicQuantizeLinear", x, count=3)
    return _real_product(new, (a, b, zero_a, zero_b), (scale_a, scale_b), bias)


def _real_product(
    new: Definition, operands: tuple[str, ...], scales: tuple[str, str], bias: str
) -> bool:
    y = new.as_real(new.made("MatMulInteger", *operands))
    y = new.made("Mul", y, new.made("Mul", *scales))
    new.name_output(new.made("Add", y, bias) if bias else y)
    return True


DEFINITIONS: Mapping[str, Define] = {
    "FusedConv": _fused_conv,
    "FusedGemm": _fused_gemm,
    "FusedMatMul": _fused_product,
    "TransposeMatMul": _fused_product,
    "QuickGelu": _quick_gelu,
    "BiasGelu": _biased_gelu("none"),
    "FastGelu": _biased_gelu("tanh"),
    "SkipLayerNormalization": _skipped(centred=True),
    "SkipSimplifiedLayerNormalization": _skipped(centred=False),
    "SimplifiedLayerNormalization": _simplified,
    "MatMulIntegerToFloat": _integers_to_real,
    "DynamicQuantizeMatMul": _dynamic_product,
}
