"""Exports torch modules by both of torch's exporters, and quantises them with onnxruntime: wholly,
in part, dynamically, or not at all."""

# pyright: reportMissingImports=false, reportMissingModuleSource=false
# The packages are in the extra `torture`.

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx

from benchmarks.torture.case import Case
from benchmarks.torture.onnx_judge import drawn, judge
from penstock.ir.tensor import Array

CALIBRATION_SETS = 4
OPSETS = (13, 14, 15, 16, 17)
DYNAMO_OPSETS = (18, 18, 20, 21)
DYNAMO_SHARE = 0.35
QUANTISE, DEQUANTISE = "QuantizeLinear", "DequantizeLinear"


Form = Callable[[bytes, Random], bytes | None]
"""Makes the file to compile of a float model; None if the tool refuses."""


def exported_case(
    module: Any, inputs: tuple[Any, ...], random: Random, form: Form | None = None
) -> Case | None:
    """A module, exported and brought into a form, by default statically quantised; None if a tool
    refuses."""
    with quiet():
        raw = exported(module, inputs, random)
        found = None if raw is None else (form or quantised)(raw, random)
    if found is None:
        return None
    share = form is not None or is_quantised(onnx.ModelProto.FromString(found))
    return Case(found, ".onnx", judge, share=share)


def unquantised(raw: bytes, random: Random) -> bytes:
    """The float model itself."""
    return raw


def mixed(raw: bytes, random: Random) -> bytes | None:
    """The model with float operators beside quantised ones: dynamically quantised, or statically
    without some of its nodes."""
    if random.random() < 0.4:
        return _dynamic(raw, random)
    names = [node.name for node in onnx.ModelProto.FromString(raw).graph.node]
    return quantised(raw, random, random.sample(names, random.randint(1, max(1, len(names) // 2))))


def _dynamic(raw: bytes, random: Random) -> bytes | None:
    from onnxruntime import quantization as q

    with tempfile.TemporaryDirectory(prefix="penstock-torture-") as folder:
        source, target = Path(folder) / "f.onnx", Path(folder) / "q.onnx"
        source.write_bytes(raw)
        try:
            q.quantize_dynamic(
                source,
                target,
                per_channel=random.random() < 0.5,
                reduce_range=random.random() < 0.2,
                weight_type=random.choice((q.QuantType.QInt8, q.QuantType.QUInt8)),
            )
            return target.read_bytes()
        except (Exception, SystemExit):  # onnxruntime's quantiser raises all sorts
            return None


@contextlib.contextmanager
def quiet() -> Generator[None]:
    """Suppresses what the tools of others print."""
    logging.disable(logging.WARNING)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        with contextlib.redirect_stderr(io.StringIO()):
            yield
    logging.disable(logging.NOTSET)


def exported(module: Any, inputs: tuple[Any, ...], random: Random) -> bytes | None:
    """The ONNX file of a module by one of torch's exporters; None if it refuses."""
    import torch

    module.eval()
    _keep_translations()
    dynamo = random.random() < DYNAMO_SHARE
    opset = random.choice(DYNAMO_OPSETS if dynamo else OPSETS)
    with tempfile.TemporaryDirectory(prefix="penstock-torture-") as folder:
        path = Path(folder) / "m.onnx"
        try:
            with torch.no_grad():
                torch.onnx.export(
                    module, inputs, str(path), opset_version=opset, dynamo=dynamo,
                    external_data=False, verbose=False,
                )  # fmt: skip
            return path.read_bytes()
        except Exception:  # whatever the exporters raise: the module is not for them
            return None


@cache
def _keep_translations() -> None:
    """Lets torch parse its translations once for each opset: it does so in each export, which takes
    two thirds of its time."""
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    ONNXRegistry.from_torchlib = staticmethod(cache(ONNXRegistry.from_torchlib))


def quantised(raw: bytes, random: Random, excluded: Sequence[str] = ()) -> bytes | None:
    """The model by onnxruntime's static quantisation, except the nodes of these names; None if
    that refuses."""
    from onnxruntime import quantization as q
    from onnxruntime.quantization.shape_inference import quant_pre_process

    model = onnx.ModelProto.FromString(raw)
    activations, weights = random.choice(
        (
            (q.QuantType.QInt8, q.QuantType.QInt8),
            (q.QuantType.QInt8, q.QuantType.QInt8),
            (q.QuantType.QUInt8, q.QuantType.QInt8),
            (q.QuantType.QUInt8, q.QuantType.QUInt8),
        )
    )
    form = random.choice((q.QuantFormat.QDQ, q.QuantFormat.QDQ, q.QuantFormat.QOperator))
    kinds = sorted({node.op_type for node in model.graph.node} - {"Constant"})
    extra = {
        "ActivationSymmetric": random.random() < 0.3,
        "WeightSymmetric": random.choice((True, True, True, False)),
        "ForceQuantizeNoInputCheck": random.random() < 0.3,
        "QuantizeBias": random.random() < 0.85,
    }
    reader: Any = _Calibration(model)
    every = form is q.QuantFormat.QDQ and random.random() < 0.6
    with tempfile.TemporaryDirectory(prefix="penstock-torture-") as folder:
        source, target = Path(folder) / "f.onnx", Path(folder) / "q.onnx"
        source.write_bytes(raw)
        try:
            if random.random() < 0.6:
                prepared = Path(folder) / "p.onnx"
                quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
                source = prepared
            q.quantize_static(
                str(source),
                str(target),
                reader,
                quant_format=form,
                per_channel=random.random() < 0.5,
                reduce_range=random.random() < 0.2,
                activation_type=activations,
                weight_type=weights,
                op_types_to_quantize=kinds if every else None,
                nodes_to_exclude=list(excluded),
                extra_options=extra,
            )
            return target.read_bytes()
        except (Exception, SystemExit):  # onnxruntime's quantiser raises all sorts
            return None


class _Calibration:
    """A reader of random inputs, as onnxruntime asks for them."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._sets = iter([drawn(model, number) for number in range(CALIBRATION_SETS)])

    def get_next(self) -> Mapping[str, Array] | None:
        return next(self._sets, None)

    def __iter__(self) -> _Calibration:
        return self

    def __next__(self) -> Mapping[str, Array]:
        found = self.get_next()
        if found is None:
            raise StopIteration
        return found


def is_quantised(model: onnx.ModelProto) -> bool:
    """Whether every operator on real numbers that are not constants stands between
    DequantizeLinear and QuantizeLinear, and inputs and outputs are quantised too."""
    types = _types(model)
    graph = model.graph
    constants = {t.name for t in graph.initializer}
    constants |= {n for node in graph.node if node.op_type == "Constant" for n in node.output}
    makers = {name: node for node in graph.node for name in node.output}
    constants |= {
        name
        for name, node in makers.items()
        if node.op_type == DEQUANTISE and node.input[0] in constants
    }
    readers: dict[str, set[str]] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, set()).add(node.op_type)

    def is_real(name: str) -> bool:
        return types.get(name) == onnx.TensorProto.FLOAT

    def is_held(name: str) -> bool:
        return name in constants or (name in makers and makers[name].op_type == DEQUANTISE)

    return all(
        all(is_held(name) for name in node.input if is_real(name))
        and all(readers.get(name) == {QUANTISE} for name in node.output if is_real(name))
        for node in graph.node
        if node.op_type not in (QUANTISE, DEQUANTISE, "Constant")
    )


def _types(model: onnx.ModelProto) -> Mapping[str, int]:
    from benchmarks.torture.onnx_graph import inferred

    found = dict(inferred(model))
    return found | {t.name: t.data_type for t in model.graph.initializer}


def normal(random: Random, *shape: int) -> Any:
    """A tensor of normal numbers."""
    import torch

    numbers = np.random.default_rng(random.getrandbits(64)).normal(0, 1, shape)
    return torch.from_numpy(numbers.astype(np.float32))
