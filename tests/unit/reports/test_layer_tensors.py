"""What reports state about the operator of a layer and its tensors."""

import json

import pytest

from found import SAMPLES
from penstock import api
from penstock.ir.operator_facts import MOST_NUMBERS
from penstock.reports.layer import TensorRole


@pytest.fixture(scope="module")
def lenet() -> api.Compiled:
    return api.compile("zoo:lenet5", "cortex-m4")


def test_every_operator_states_attributes_with_unique_names() -> None:
    for name, sample in SAMPLES:
        stated = sample.op.stated_attributes()
        assert len({one.name for one in stated}) == len(stated), name
        for one in stated:
            assert one.words, name
            assert "(" not in one.words, f"{name}: {one} is the text of a record"
            assert one.words.count(", ") < MOST_NUMBERS, name


def test_layers_state_the_tensors_of_their_nodes(lenet: api.Compiled) -> None:
    nodes = {node.name: node for node in lenet.compilation.parts.graph.nodes}
    known = [layer for layer in lenet.layers if layer.name in nodes]
    assert known
    for layer in known:
        node = nodes[layer.name]
        values = (*node.inputs, node.output)
        assert [one.name for one in layer.tensors] == [value.name for value in values]
        assert layer.constant_bytes == sum(
            len(value.data.raw) for value in node.inputs if value.data is not None
        )
        for one, value in zip(layer.tensors, values, strict=True):
            assert (one.role is TensorRole.CONSTANT) == (value.data is not None)
            assert one.shape == value.type.shape
            if value.type.quantisation is not None and len(value.type.quantisation.scales) == 1:
                assert one.scales == (value.type.scale, value.type.scale)
                assert one.zero_point == value.type.zero_point


def test_the_records_are_json(lenet: api.Compiled) -> None:
    rows = json.loads(json.dumps(lenet.layer_rows()))
    assert [len(row["tensors"]) for row in rows] == [len(x.tensors) for x in lenet.layers]
    assert {"name": "kernel size", "words": "5 × 5"} in rows[0]["attributes"]
