"""Attributes of ONNX that are one of several words: others are refused, with the words."""

import onnx
import pytest

from onnx_models import graph_of
from penstock.errors import UnsupportedError

IMAGE = "float[1,2,4,4] x"
NODES = {
    "auto_pad is 'SAME'": (IMAGE, 'Conv <auto_pad = "SAME"> (x, w)'),
    "mode is 'mirror'": (IMAGE, 'Pad <mode = "mirror"> (x, pads)'),
    "mode is 'area'": (IMAGE, 'Resize <mode = "area"> (x, , , sizes)'),
    "keep_aspect_ratio_policy is 'fit'": (
        IMAGE,
        'Resize <keep_aspect_ratio_policy = "fit"> (x, , , sizes)',
    ),
    "nearest_mode is 'up'": (IMAGE, 'Resize <nearest_mode = "up"> (x, , , sizes)'),
    "coordinate_transformation_mode is 'centre'": (
        IMAGE,
        'Resize <coordinate_transformation_mode = "centre"> (x, , , sizes)',
    ),
    "mode is 'ABC'": ("float[1,4,2,2] x", 'DepthToSpace <blocksize = 2, mode = "ABC"> (x)'),
    "reduction is 'median'": (
        "float[4] x, int64[2,1] i, float[2] u",
        'ScatterND <reduction = "median"> (x, i, u)',
    ),
    "reduction is 'mean'": (
        "float[4] x, int64[2] i, float[2] u",
        'ScatterElements <reduction = "mean"> (x, i, u)',
    ),
    "padding_mode is 'edge'": (
        f"{IMAGE}, float[1,2,2,2] g",
        'GridSample <padding_mode = "edge"> (x, g)',
    ),
    "mode is 'quartic'": (f"{IMAGE}, float[1,2,2,2] g", 'GridSample <mode = "quartic"> (x, g)'),
    "mode is 'median'": (
        f"{IMAGE}, float[1,4] r",
        'RoiAlign <mode = "median", sampling_ratio = 1> (x, r, batch)',
    ),
    "direction is 'UP'": ("uint8[4] x, uint8[4] n", 'BitShift <direction = "UP"> (x, n)'),
    "approximate is 'erf'": (IMAGE, 'Gelu <approximate = "erf"> (x)'),
}
WEIGHTS = ", ".join(["1"] * 36)
CONSTANTS = f"""float[2,2,3,3] w = {{{WEIGHTS}}}, int64[8] pads = {{0, 0, 1, 1, 0, 0, 1, 1}},
    int64[4] sizes = {{1, 2, 8, 8}}, int64[1] batch = {{0}}"""


@pytest.mark.parametrize("what", NODES)
def test_words_that_an_attribute_does_not_have_are_refused(what: str) -> None:
    inputs, node = NODES[what]
    text = f"""<ir_version: 9, opset_import: ["": 20]>
        g ({inputs}) => ({"uint8" if "uint8" in inputs else "float"}[A, B, C, D] y)
        <{CONSTANTS}> {{ y = {node} }}"""
    raw = onnx.parser.parse_model(text).SerializeToString()
    with pytest.raises(UnsupportedError, match=rf"attribute {what}, must be one of ") as caught:
        graph_of(raw)
    assert caught.value.where.startswith("m.onnx")
