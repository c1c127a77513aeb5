"""Names of the ONNX operators that the front end imports without an operator file, and their
definitions."""

from __future__ import annotations

from functools import cache

import onnx

QUANTISE = "QuantizeLinear"
DEQUANTISE = "DequantizeLinear"
CAST = "Cast"
SHAPE, SIZE = "Shape", "Size"
EYE = "EyeLike"
SHAPES = (SHAPE, SIZE, EYE)  # Nodes that depend on the shape of their input alone.
DROPOUT = "Dropout"
SAME = ("Identity", DROPOUT)  # Nodes that return their input; a Dropout in training does not.
RESHAPING = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")
# Nodes that move whole tensors, which have the same meaning in every domain.
MOVING = (*SAME, *RESHAPING, "Transpose")
KNOWN = (*MOVING, QUANTISE, DEQUANTISE, CAST, *SHAPES)
# After the name of an operator: its form on integers, which operator files may have.
OF_INTEGERS = " of integers"
# The same, for the form whose input 1 is computed.
AT_COMPUTED = " at computed indices"
# Nodes that make tensors without elements of such tensors, which nothing has to compute.
EMPTY = (*KNOWN, "Slice", "Split")
JOINING = ("Concat",)  # Nodes of which inputs without elements are no part.
EIGHT_BITS = ("int8", "uint8")
# Functions of real numbers, element by element.
ELEMENTWISE = (
    *("Abs", "Acos", "Acosh", "Add", "Asin", "Asinh", "Atan", "Atanh", "Ceil"),
    *("Celu", "Clip", "Cos", "Cosh", "Div", "Elu", "Erf", "Exp", "Floor"),
    *("Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Log", "Max", "Mean", "Min", "Mish"),
    *("Mul", "Neg", "Pow", "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid"),
    *("Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Swish"),
    *("Tan", "Tanh", "ThresholdedRelu"),
)
# Operators of constants.
CONSTANT = ("Constant", "ConstantOfShape", "Range")


@cache
def operator_schema(name: str, opset: int) -> onnx.defs.OpSchema | None:
    """ONNX's definition of an operator; None for operators of other domains."""
    try:
        return onnx.defs.get_schema(name, max_inclusive_version=opset, domain="")
    except onnx.defs.SchemaError:
        return None
