"""Definitions of Softmax, LogSoftmax and Hardmax before opset 13, along an axis and all later ones
as one.

Source: ONNX operator specification, Softmax of opset 11.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from penstock.frontends.onnx.definitions import Define, Definition
from penstock.frontends.onnx.file import File, FileNode
from penstock.frontends.onnx.folding import whole

FORMS = ("Softmax", "LogSoftmax", "Hardmax")
"""Operators of which only some forms are defined here."""
ALONG_ONE_AXIS = 13  # From this opset on.


def is_standard(node: FileNode, file: File) -> bool:
    """Whether a node is along one axis whatever its shape."""
    return node.name not in FORMS or file.opset >= ALONG_ONE_AXIS


def _define(new: Definition) -> bool:
    """False if later axes have one element each, or if the shape is not known."""
    shape, axis = new.shapes.get(new.given(0)), whole(new.node, "axis", 1)
    if shape is None or not -len(shape) <= axis < len(shape):
        return False
    axis %= len(shape)
    if math.prod(shape[axis + 1 :]) == 1:
        return False
    sizes = new.integers(math.prod(shape[:axis]), math.prod(shape[axis:]))
    found = new.made(new.node.name, new.made("Reshape", new.given(0), sizes), axis=1)
    new.name_output(new.made("Reshape", found, shape))
    return True


DEFINITIONS: Mapping[str, Define] = dict.fromkeys(FORMS, _define)
