"""Names of the ONNX operators that the front end imports without an operator file."""

from __future__ import annotations

QUANTISE = "QuantizeLinear"
DEQUANTISE = "DequantizeLinear"
CAST = "Cast"
SHAPE = "Shape"
DROPOUT = "Dropout"
SAME = ("Identity", DROPOUT)  # Nodes that return their input; a Dropout in training does not.
RESHAPING = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")
# Nodes that move whole tensors, which have the same meaning in every domain.
MOVING = (*SAME, *RESHAPING, "Transpose")
KNOWN = (*MOVING, QUANTISE, DEQUANTISE, CAST, SHAPE)
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
