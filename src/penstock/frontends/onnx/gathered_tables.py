"""Definition of Gather at a constant tensor of indices: at a list of them, then a Reshape.

Source: ONNX operator specification.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.frontends.onnx.definitions import Define, Definition
from penstock.frontends.onnx.file import File, FileNode
from penstock.frontends.onnx.folding import whole


def is_standard(node: FileNode, file: File) -> bool:
    """Whether a node is no such Gather."""
    found = file.constants.get(node.inputs[1]) if len(node.inputs) > 1 else None
    return node.name != "Gather" or found is None or found.ndim < 2


def _define(new: Definition) -> bool:
    """False if the shape is not known."""
    shape, indices = new.shapes.get(new.given(0)), new.file.constants[new.given(1)]
    axis = whole(new.node, "axis", 0)
    if shape is None or not -len(shape) <= axis < len(shape):
        return False
    axis %= len(shape)
    rows = new.made("Gather", new.given(0), indices.ravel(), axis=axis)
    wanted = (*shape[:axis], *indices.shape, *shape[axis + 1 :])
    new.name_output(new.made("Reshape", rows, wanted))
    return True


DEFINITIONS: Mapping[str, Define] = {"Gather": _define}
