"""ONNX's interface of backends, `onnx.backend.base.Backend`, over compiled C on this machine.

    import onnx, penstock.onnx_backend
    outputs = penstock.onnx_backend.run_model(onnx.load("model.onnx"), inputs)

Inputs that decide shapes, axes, repeats, scales or pads, and parameters of layers that kernels
store, become constants of the compiled network: a network is compiled when its inputs are known,
and again when such an input changes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep, namedtupledict

from penstock.api.requested import request
from penstock.execution import library_sources, outputs_on_host, unpacked
from penstock.frontends.onnx.file import File, decode, with_constants
from penstock.frontends.onnx.importer import import_onnx
from penstock.frontends.onnx.operators import SHAPES
from penstock.frontends.onnx.rewrites import rewritten
from penstock.frontends.reading import Reading
from penstock.ir.graph import Graph
from penstock.ir.tensor import Array
from penstock.pipeline.compilation import Compilation, compile_graph
from penstock.scheduling.options import QUICK
from penstock.toolchains.compiler import compile_objects
from penstock.toolchains.host import host_compiler

Inputs = Array | Sequence[Array] | Mapping[str, Array]
"""A single array, or arrays in the order of the model, or by name."""

_REST = slice(1, None)
_FIXED: Mapping[str, slice] = {
    **dict.fromkeys(
        (
            *("AffineGrid", "BatchNormalization", "CenterCropPad", "Col2Im", "CumProd", "CumSum"),
            *("DFT", "DequantizeLinear", "Dropout", "Expand", "MaxRoiPool", "MaxUnpool"),
            *("OneHot", "Pad", "QuantizeLinear", "ReduceL1", "ReduceL2", "ReduceLogSum"),
            *("ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd"),
            *("ReduceSum", "ReduceSumSquare", "Reshape", "Resize", "STFT", "Slice", "Split"),
            *("SplitToSequence", "Squeeze", "Tile", "TopK", "Trilu", "Unsqueeze", "Upsample"),
            *("Conv", "ConvInteger", "ConvTranspose", "QLinearConv"),
        ),
        _REST,
    ),
    **dict.fromkeys(
        (
            *("BlackmanWindow", "ConstantOfShape", "HammingWindow", "HannWindow"),
            *("MelWeightMatrix", "Range"),
        ),
        slice(0, None),
    ),
    "CausalConvWithState": slice(1, 3),
    "MatMulInteger": slice(2, None),
}
"""By operator, the positions of inputs that become constants.  Those that depend on such inputs'
nodes do, too."""
_COMPUTED: Mapping[str, tuple[int, ...]] = {
    "QLinearAdd": (0, 3),
    "QLinearMatMul": (0, 3),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), (0, 5, 6)),
}
"""By operator, the positions of the inputs that stay, where all others become constants."""


def fixed_inputs(file: File) -> tuple[str, ...]:
    """Names of the inputs of a model that become constants of the compiled network."""
    found: set[str] = set()
    for node in reversed(file.nodes):
        if not found.isdisjoint(node.outputs) and node.name not in SHAPES:
            found.update(node.inputs)
        found.update(node.inputs[_FIXED.get(node.name, slice(0))])
        if node.name in _COMPUTED:
            stay = _COMPUTED[node.name]
            found.update(name for k, name in enumerate(node.inputs) if k not in stay)
    return tuple(b.name for b in file.inputs if b.name in found or 0 in b.shape)


class Prepared(BackendRep):
    """A model, compiled for each combination of inputs that become constants."""

    def __init__(self, model: onnx.ModelProto, runner: type[HostProgram] | None = None) -> None:
        self._file = decode(model.SerializeToString(), model.graph.name or "model", None)
        self._fixed = fixed_inputs(self._file)
        self._names = [value.name for value in model.graph.output]
        self._programs: dict[object, HostProgram] = {}
        self._program = runner or HostProgram

    def run(self, inputs: Inputs, **kwargs: object) -> tuple[Array, ...]:
        """The outputs for inputs in the order of the model, or by name.

        Raises PenstockError if the network cannot be compiled, ValueError for too many inputs."""
        borders = self._file.inputs
        if not isinstance(inputs, Mapping):
            inputs = [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
            if len(inputs) > len(borders):
                raise ValueError(f"{len(inputs)} inputs, the model has {len(borders)}")
            inputs = {b.name: x for b, x in zip(borders, inputs, strict=False)}
        arrays = {name: np.asarray(x) for name, x in inputs.items()}
        fixed = {name: arrays[name] for name in self._fixed if name in arrays}
        key = tuple((x.shape, x.dtype.str, x.tobytes()) for x in fixed.values())
        if key not in self._programs:
            self._programs[key] = self._program(with_constants(self._file, fixed))
        rest = {name: x for name, x in arrays.items() if name not in fixed}
        outputs = self._programs[key](rest)
        return namedtupledict("Outputs", self._names)(*outputs)


class HostProgram:
    """A network as a program of this machine."""

    def __init__(self, file: File) -> None:
        self.file = file
        folded = rewritten(file).constants
        names = [border.name for border in file.outputs]
        self._constants = [folded[name] for name in names if name in folded]
        self._is_constant = len(self._constants) == len(names)
        if not self._is_constant:
            self.graph = import_onnx(file, Reading(same_interface=True)).graph

    def __call__(self, arrays: Mapping[str, Array]) -> list[Array]:
        """The outputs of a run, in order, with the element types of the model."""
        if self._is_constant:
            return self._constants
        given = {
            value.name: _stored(arrays[border.name], value.type.dtype.value)
            for border, value in zip(self.file.inputs, self.graph.inputs, strict=True)
        }
        outputs = self.graph.outputs
        found = {v.name: v.array for v in outputs if v.data is not None}
        computed = tuple(value for value in outputs if value.data is None)
        if computed:
            found.update(self.run(replace(self.graph, outputs=computed), given))
        return [
            _shown(found[value.name], border.dtype)
            for border, value in zip(self.file.outputs, self.graph.outputs, strict=True)
        ]

    def run(self, graph: Graph, given: Mapping[str, Array]) -> Mapping[str, Array]:
        """The graph's outputs by name."""
        return _on_host(graph, given)


def _stored(x: Array, dtype: str) -> Array:
    """Elements as the generated code takes them: uint8 less 128 if it stores int8."""
    if x.dtype == np.uint8 and dtype == "int8":
        return (x.astype(np.int16) - 128).astype(np.int8)
    return np.asarray(x, dtype, order="C")


def _shown(x: Array, dtype: str) -> Array:
    if x.dtype == np.int8 and dtype == "uint8":
        return (x.astype(np.int16) + 128).astype(np.uint8)
    return x


def _on_host(graph: Graph, given: Mapping[str, Array]) -> Mapping[str, Array]:
    done: Compilation = compile_graph(graph, request(graph, "host", io="model", options=QUICK))
    compiler = host_compiler()
    with tempfile.TemporaryDirectory() as name, unpacked(done.bundle) as folder:
        sources = [folder / source for source in library_sources(done)]
        library = compile_objects(compiler, sources, Path(name), include=(folder,))
        (found,) = outputs_on_host(done, (given,), compiler, library)
    return found


class PenstockBackend(Backend):
    """penstock as a backend of ONNX; the device is the CPU of this machine."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: object) -> Prepared:
        """A model to run; it is compiled with its first inputs."""
        super().prepare(model, device, **kwargs)
        return Prepared(model)

    @classmethod
    def run_model(
        cls, model: onnx.ModelProto, inputs: Inputs, device: str = "CPU", **kwargs: object
    ) -> tuple[Array, ...]:
        """The outputs of a model, compiled for these inputs."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Inputs,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype, tuple[int, ...]]] | None = None,
        opset_version: int | None = None,
        **kwargs: object,
    ) -> tuple[Array, ...]:
        """The outputs of a single node, whose absent inputs have no arrays."""
        opset = opset_version or onnx.defs.onnx_opset_version()
        names = [name for name in node.input if name]
        arrays = dict(zip(names, map(np.asarray, inputs), strict=True))
        inputs_info = [_info(name, x.dtype, x.shape) for name, x in arrays.items()]
        given = list(outputs_info) if outputs_info else [None] * len(node.output)
        results = [
            onnx.ValueInfoProto(name=name) if info is None else _info(name, *info)
            for name, info in zip(node.output, given, strict=True)
            if name
        ]
        graph = helper.make_graph([node], "node", inputs_info, results)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        inferred: onnx.ModelProto = onnx.shape_inference.infer_shapes(model, data_prop=True)
        return cls.run_model(inferred, arrays, device)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether this is the CPU."""
        return device.split(":")[0] == "CPU"


def _info(name: str, dtype: np.dtype, shape: Sequence[int]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), list(shape))


prepare = PenstockBackend.prepare
run_model = PenstockBackend.run_model
run_node = PenstockBackend.run_node
supports_device = PenstockBackend.supports_device
