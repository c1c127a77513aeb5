"""InterfaceTypes: the element types of a compiled network's inputs and outputs."""

from __future__ import annotations

from enum import Enum


class InterfaceTypes(Enum):
    """Element types of inputs and outputs; the value is the argument of `--io`.

    QUANTISED: as inside the network; the caller quantises inputs and dequantises outputs.
    MODEL: as in the model file; the generated code converts."""

    QUANTISED = "quantized"
    MODEL = "model"
