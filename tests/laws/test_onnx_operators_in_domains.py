"""Law: an ONNX operator is imported by the rule for the domain of its operands, or refused.

Every node test of ONNX that has float32 operands becomes two models: on real tensors, which a
QuantizeLinear and a DequantizeLinear store, and on 8-bit elements in place of the real numbers, if
onnxruntime runs that.  onnxruntime judges each node of what is imported.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from onnx_models import drawn
from onnx_node_tests import one_node_tests
from penstock import api
from penstock.errors import InternalError, PenstockError, ToolError
from penstock.frontends.onnx.element_types import operator_schema
from penstock.frontends.onnx.importer import onnx_names
from penstock.frontends.onnx.operators import ELEMENTWISE, KNOWN
from penstock.frontends.open import parse
from penstock.ir.tensor import Array
from penstock.simulators.graph import run_graph
from penstock.simulators.onnx_reference import OnnxSession

onnxruntime = pytest.importorskip("onnxruntime")

NEWEST_IR = 10
"""Of the files that the oldest supported onnxruntime reads."""
USUAL_OPSET, OLDEST_OPSET = 22, 10
"""Later ones may be beyond onnxruntime; earlier ones have no QuantizeLinear."""
WITHOUT_MODEL = {
    "QuantizeLinear": "in every model",
    "DequantizeLinear": "in every model",
    "Upsample": "ends before opset 10",
    "ReduceLogSumExp": "its tests have float64",
    "RoiAlign": "onnxruntime runs none of its tests",
    "LinearAttention": "beyond onnxruntime",
}

WITH_ONE_OUTPUT = ("LayerNormalization",)
"""Operators whose tests ask for more outputs than penstock computes."""


@cache
def node_tests() -> Mapping[str, list[Any]]:
    """Node tests of ONNX by operator, of one node with float32 operands."""
    found: dict[str, list[Any]] = defaultdict(list)
    for test in one_node_tests():
        ((inputs, outputs), *_) = test.data_sets
        arrays = all(isinstance(x, np.ndarray | np.generic | float | int) for x in inputs + outputs)
        is_float = any(np.asarray(x).dtype == np.float32 for x in inputs if arrays)
        is_whole = len(inputs) == len(test.model.graph.input)
        if arrays and is_float and is_whole:
            found[test.model.graph.node[0].op_type].append(test)
    return found


class Variant:
    """A node test with other operands; inputs that are not float32 become constants.

    `all_computed`: every float32 operand is an input, or else the first one only."""

    def __init__(self, test: Any, kind: type[np.integer[Any]], *, all_computed: bool) -> None:
        self.kind, self.all_computed = kind, all_computed
        self.model = onnx.ModelProto()
        self.model.CopyFrom(test.model)
        self.model.ir_version = min(self.model.ir_version, NEWEST_IR)
        (imported,) = (each for each in self.model.opset_import if not each.domain)
        (node,) = self.model.graph.node
        if operator_schema(node.op_type, USUAL_OPSET) is not None:
            imported.version = min(max(imported.version, OLDEST_OPSET), USUAL_OPSET)
        inputs, outputs = (list(arrays) for arrays in test.data_sets[0])
        graph = self.model.graph
        if node.op_type in WITH_ONE_OUTPUT:
            del graph.output[1:], node.output[1:], outputs[1:]
        self.inputs = {v.name: np.asarray(x) for v, x in zip(graph.input, inputs, strict=True)}
        self.outputs = {v.name: np.asarray(x) for v, x in zip(graph.output, outputs, strict=True)}

    def of_reals(self) -> bytes:
        """Real tensors that are stored as 8-bit elements."""
        graph = self.model.graph
        outputs, borders = list(graph.output), list[onnx.ValueInfoProto]()
        before, after = list[onnx.NodeProto](), list[onnx.NodeProto]()
        for name in self._operands():
            self._store_scale(name, self.inputs[name])
            if self._is_computed(name):
                shape = self.inputs[name].shape
                borders.append(helper.make_tensor_value_info(f"{name}/f", 1, shape))
                before.append(_node("QuantizeLinear", f"{name}/f", f"{name}/q", name))
            else:
                self._store(f"{name}/q", self._elements(self.inputs[name]))
            before.append(_node("DequantizeLinear", f"{name}/q", name, name))
        del graph.output[:]
        for value in outputs:
            name = value.name
            if self.outputs[name].dtype != np.float32:
                graph.output.append(value)
                continue
            self._store_scale(name, self.outputs[name])
            after.append(_node("QuantizeLinear", name, f"{name}/q", name))
            after.append(_node("DequantizeLinear", f"{name}/q", f"{name}/d", name))
            shape = self.outputs[name].shape
            graph.output.append(helper.make_tensor_value_info(f"{name}/d", 1, shape))
        (node,) = graph.node
        nodes = [*before, _copy(node), *after]
        del graph.node[:]
        graph.node.extend(nodes)
        return self._with_inputs(borders)

    def of_elements(self) -> bytes:
        """8-bit elements in place of real numbers."""
        graph = self.model.graph
        code = helper.np_dtype_to_tensor_dtype(np.dtype(self.kind))
        borders = list[onnx.ValueInfoProto]()
        for name in self._operands():
            if self._is_computed(name):
                shape = self.inputs[name].shape
                borders.append(helper.make_tensor_value_info(name, code, shape))
            else:
                self._store(name, self._elements(self.inputs[name]))
        for value in graph.output:
            if self.outputs[value.name].dtype == np.float32:
                value.type.tensor_type.elem_type = code
        return self._with_inputs(borders)

    def _operands(self) -> list[str]:
        return [name for name, x in self.inputs.items() if x.dtype == np.float32]

    def _is_computed(self, name: str) -> bool:
        return self.all_computed or name == self._operands()[0]

    def _with_inputs(self, borders: list[onnx.ValueInfoProto]) -> bytes:
        for name, x in self.inputs.items():
            if x.dtype != np.float32:
                self._store(name, x)
        del self.model.graph.input[:]
        self.model.graph.input.extend(borders)
        return self.model.SerializeToString()

    def _store(self, name: str, x: Array) -> None:
        self.model.graph.initializer.append(numpy_helper.from_array(x, name))

    def _store_scale(self, name: str, x: Array) -> None:
        scale, zero_point = self._scale(x)
        self._store(f"{name}/scale", np.asarray(scale))
        self._store(f"{name}/zero", np.asarray(zero_point, self.kind))

    def _scale(self, x: Array) -> tuple[np.float32, int]:
        finite = np.where(np.isfinite(x), x, 0)
        least, most = (min(0, finite.min(initial=0)), max(0, finite.max(initial=0)))
        scale = np.float32(max(most - least, 1e-3) / 255)
        return scale, round(-least / scale) + int(np.iinfo(self.kind).min)

    def _elements(self, x: Array) -> Array:
        scale, zero_point = self._scale(x)
        limits = np.iinfo(self.kind)
        steps = np.rint(np.where(np.isfinite(x), x, 0) / scale) + zero_point
        return np.clip(steps, limits.min, limits.max).astype(self.kind)


def _node(kind: str, source: str, target: str, of: str) -> onnx.NodeProto:
    return helper.make_node(kind, [source, f"{of}/scale", f"{of}/zero"], [target])


def _copy(node: onnx.NodeProto) -> onnx.NodeProto:
    found = onnx.NodeProto()
    found.CopyFrom(node)
    return found


def is_exact(raw: bytes, folder: Path) -> bool:
    """Whether the importer takes a model; then every node must be right.  Refusals must help."""
    path = folder / "m.onnx"
    path.write_bytes(raw)
    refusals: tuple[PenstockError, ...] = ()
    try:
        graph = parse(raw, "m.onnx")
    except InternalError:
        raise
    except PenstockError as error:
        refusals = error.combined or (error,)
    assert all(each.what and each.where and each.help for each in refusals)
    if refusals:
        return False
    results = [run_graph(graph, drawn(graph, number)) for number in (0, 1)]
    try:
        judgement = api.onnx_reference(api.request(path)).judge(results)
    except ToolError:  # such as for a division of integers by 0
        return False
    assert judgement.failure is None
    return True


def runs(raw: bytes) -> bool:
    """Whether onnxruntime runs a model."""
    try:
        OnnxSession(onnx.load_from_string(raw), "m.onnx")
    except PenstockError:
        return False
    return True


OPERATORS = sorted({*onnx_names(), *KNOWN, *ELEMENTWISE} & node_tests().keys())


@pytest.mark.parametrize("operator", OPERATORS)
def test_operator(operator: str, tmp_path: Path) -> None:
    exact = 0
    for number, test in enumerate(node_tests()[operator]):
        kind = (np.int8, np.uint8)[number % 2]
        for make in (Variant.of_reals, Variant.of_elements):
            for all_computed in (True, False):
                raw = make(Variant(test, kind, all_computed=all_computed))
                if runs(raw) and is_exact(raw, tmp_path):
                    exact += 1
                    break
    assert exact or operator in WITHOUT_MODEL
