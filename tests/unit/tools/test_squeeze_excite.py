"""The network with squeeze-and-excite that measures compile time."""

from __future__ import annotations

import tflite

from tools.squeeze_excite import squeeze_excite


def test_the_network_has_164_nodes_and_float_borders() -> None:
    raw = squeeze_excite(resolution=32)
    assert raw == squeeze_excite(resolution=32)
    graph = tflite.Model.GetRootAs(raw, 0).Subgraphs(0)
    assert graph.OperatorsLength() == 164
    borders = (graph.Inputs(0), graph.Outputs(0))
    assert [graph.Tensors(i).Type() for i in borders] == [tflite.TensorType.FLOAT32] * 2
