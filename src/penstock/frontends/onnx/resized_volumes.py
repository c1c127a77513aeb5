"""Definition of Resize and Upsample of volumes: of the rows and columns of their slices, then of
their depth, both as images.

Source: ONNX operator specification, whose interpolation is along one axis after the other.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from penstock.frontends.onnx.definitions import Define, Definition
from penstock.frontends.onnx.file import File, FileNode

FORMS = ("Resize", "Upsample")  # Operators of which only some forms are defined.
RANK = 5


def is_standard(node: FileNode, file: File) -> bool:
    """Whether a node does not resize volumes, all of whose factors or sizes are known."""
    parts = [file.constants[name] for name in node.inputs[1:] if name in file.constants]
    return node.name not in FORMS or all(x.size != RANK for x in parts)


def _resized(new: Definition) -> bool:
    shape, made = new.shapes.get(new.given(0)), new.shapes.get(new.node.outputs[0])
    given = new.node.attributes
    is_joint = (
        given.get("coordinate_transformation_mode") == "tf_crop_and_resize"
        or given.get("keep_aspect_ratio_policy", "stretch") != "stretch"
        or "axes" in given
    )
    if shape is None or made is None or shape[:2] != made[:2] or is_joint:
        return False
    images, channels, depth, *_ = shape
    slices = (images, channels * depth)
    x = _image(new, new.given(0), (*slices, *shape[3:]), (*slices, *made[3:]), (3, 4))
    size = made[3] * made[4]
    x = _image(new, x, (images, channels, depth, size), (images, channels, made[2], size), (2,))
    new.name_output(new.made("Reshape", x, new.integers(*made)))
    return True


def _image(
    new: Definition,
    x: str,
    shape: tuple[int, ...],
    sizes: tuple[int, ...],
    axes: tuple[int, ...],
) -> str:
    """The image of a shape, whose axes from the third on are resized as `axes` of the volume."""
    parts: list[str] = []
    for name in new.node.inputs[1:]:
        found = new.file.constants.get(name, np.zeros(0))
        if found.size == RANK and found.dtype.kind == "f":
            factors = np.ones(4, np.float32)
            factors[2 : 2 + len(axes)] = found[list(axes)]
            name = new.constant(factors)
        elif found.size == RANK:
            name = new.integers(*sizes)
        parts.append(name)
    image = new.made("Reshape", x, new.integers(*shape))
    return new.made(new.node.name, image, *parts, **new.node.attributes)


DEFINITIONS: Mapping[str, Define] = dict.fromkeys(FORMS, _resized)
