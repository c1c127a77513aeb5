"""The suffixes of model files."""

from __future__ import annotations

from typing import Final

SUFFIXES: Final = (".tflite", ".onnx")
"""Of the formats that penstock reads itself."""
KERAS_SUFFIX: Final = ".keras"
PT2_SUFFIX: Final = ".pt2"
MODEL_SUFFIXES: Final = (*SUFFIXES, KERAS_SUFFIX, PT2_SUFFIX)
