"""The package `onnx`, which only reading ONNX files requires: the extra `onnx` installs it.

Importing this module raises ToolError if the package is not installed.
"""

from __future__ import annotations

from penstock.errors import ToolError

try:
    import onnx
    from onnx import numpy_helper
except ModuleNotFoundError as missing:
    raise ToolError(
        "tool-044",
        "reading ONNX models requires the Python package 'onnx', which is not installed",
        where="Python package onnx",
        why="it is large, and TFLite models do not need it",
        help="pip install 'penstock[onnx]'",
    ) from missing

__all__ = ["numpy_helper", "onnx"]
