"""Post-training quantisation of float models, by onnxruntime (decision 22).

The result is a model in QDQ format: int8 activations with one scale and zero point per tensor, int8
weights with one scale per output channel and zero point 0.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import onnx
from onnx.external_data_helper import load_external_data_for_model

from penstock.errors import ToolError, UsageError
from penstock.frontends.onnx.calibration_samples import Samples, read_samples
from penstock.frontends.onnx.file import Border, File, decode
from penstock.frontends.onnx.operators import DEQUANTISE, QUANTISE
from penstock.frontends.reading import Reading, refused_calibration
from penstock.ir.tensor import Array

NOT_QUANTISED = ("Constant", "ConstantOfShape", "Shape")
"""Nodes of which neither input nor output is an activation."""


def quantised(raw: bytes, file: File, reading: Reading, folder: Path | None) -> tuple[bytes, File]:
    """The model to import, encoded and decoded: quantised if `reading` names calibration samples.

    Raises UsageError for a quantised model, ModelError for unusable samples, ToolError if
    onnxruntime is missing or fails."""
    if reading.calibration is None:
        return raw, file
    if reading.assume_int8:
        raise UsageError(
            "usage-146",
            "--quantise and --assume-int8 exclude each other",
            where=file.name,
            why="one computes scales from samples, the other one invents them",
            help="leave --assume-int8 out",
        )
    if any(node.name in (QUANTISE, DEQUANTISE) or "QLinear" in node.name for node in file.nodes):
        raise refused_calibration(file.name, "this model is quantised already")
    model = onnx.ModelProto.FromString(raw)
    if folder is not None:
        load_external_data_for_model(model, str(folder))
    inputs = _with_extents(model, file, dict(reading.dimensions))
    samples = read_samples(reading.calibration, inputs)
    require_onnxruntime("--quantise uses its post-training quantisation")
    try:
        made = _quantised(model, samples)
    except Exception as error:  # onnxruntime raises exceptions of its own for each of its parts
        raise ToolError(
            "tool-046",
            "onnxruntime cannot quantise the model",
            where=file.name,
            why=" ".join(str(error).split())[:300] or type(error).__name__,
            help="check that onnxruntime runs the model on the samples",
        ) from error
    return made, decode(made, file.name, None)


def require_onnxruntime(why: str) -> None:
    """Raises ToolError with installation instructions if onnxruntime is not installed.

    why: what needs it."""
    if importlib.util.find_spec("onnxruntime") is None:
        raise ToolError(
            "tool-045",
            "onnxruntime is not installed",
            where="Python package onnxruntime",
            why=why,
            help="pip install 'penstock[quantise]'",
        )


def _with_extents(model: onnx.ModelProto, file: File, extents: Mapping[str, int]) -> list[Border]:
    """Sets the user's values of symbolic dimensions in a model, and returns its inputs under their
    names in the model."""
    constants = {tensor.name for tensor in model.graph.initializer}
    values = [value for value in model.graph.input if value.name not in constants]
    found: list[Border] = []
    for value, border in zip(values, file.inputs, strict=True):
        shape = tuple(extents.get(str(extent), extent) for extent in border.shape)
        for dimension, extent in zip(value.type.tensor_type.shape.dim, shape, strict=True):
            if isinstance(extent, int):
                dimension.dim_value = extent
        found.append(replace(border, name=value.name, shape=shape))
    return found


def _quantised(model: onnx.ModelProto, samples: Samples) -> bytes:
    """Folds constants and batch norms, then quantises every operator.

    onnxruntime quantises the operators that it has integer kernels for, unless it is told
    otherwise; penstock computes all operators in integers."""
    from onnxruntime.quantization import (
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_static,
    )
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):
        rest = iter(samples)

        def get_next(self) -> dict[str, Array] | None:  # pyright: ignore[reportIncompatibleMethodOverride]
            return next(self.rest, None)

    with tempfile.TemporaryDirectory() as folder:
        before, folded, result = (Path(folder) / name for name in ("before", "folded", "result"))
        onnx.save(model, before)
        quant_pre_process(before, folded, skip_symbolic_shape=True)
        quantize_static(
            folded,
            result,
            Reader(),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=_operators(onnx.load(folded).graph.node),
            per_channel=True,
            activation_type=QuantType.QInt8,
            weight_type=QuantType.QInt8,
            extra_options={"WeightSymmetric": True, "ForceQuantizeNoInputCheck": True},
        )
        return result.read_bytes()


def _operators(nodes: Iterable[onnx.NodeProto]) -> list[str]:
    return sorted({node.op_type for node in nodes} - set(NOT_QUANTISED))
