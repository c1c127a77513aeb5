"""ONNX files of torch modules: by both of torch's exporters, then onnxruntime's tools."""

# pyright: reportMissingImports=false, reportMissingModuleSource=false
# pyright: reportUnknownLambdaType=false
# The packages are in the extra `exporters`.

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks.exporters.making import FileName, Making
from penstock.ir.tensor import Array

CALIBRATION_SETS = 6
# A file is an exporter (its opset) and a tool of onnxruntime (its options).
EXPORTERS: Mapping[str, tuple[bool, int]] = {
    "script9": (False, 9), "script11": (False, 11),
    "script13": (False, 13), "script17": (False, 17), "script20": (False, 20),
    "dynamo18": (True, 18), "dynamo21": (True, 21), "dynamo23": (True, 23),
}  # fmt: skip
TOOLS = ("float32", "qdq-s8s8", "qdq-u8s8", "qdq-u8u8", "qoperator-s8s8", "qoperator-u8u8",
         "qoperator-u8s8", "dynamic", "float16", "basic", "extended", "batch", "fused-qdq-u8s8",
         "fx", "trained")  # fmt: skip
IN_EVERY_FORM = ("lenet", "lstm", "transformer")
FEW = (("script17", "qdq-s8s8"), ("dynamo18", "qdq-u8s8"), ("script13", "qoperator-u8s8"))
MORE = (("dynamo21", "float32"), ("script17", "dynamic"), ("script20", "extended"),
        ("dynamo18", "qoperator-s8s8"), ("script17", "float32"))  # fmt: skip
OLDER = (("script11", "qdq-u8u8"), ("script17", "fused-qdq-u8s8"), ("script9", "float32"),
         ("script17", "fx"), ("script17", "trained"), ("script11", "dynamic"))  # fmt: skip


def torch_files() -> Iterator[Making]:
    """The files of torch's exporters and onnxruntime's tools."""
    from benchmarks.exporters import torch_blocks, torch_networks

    networks = {**torch_networks.NETWORKS, **torch_blocks.NETWORKS}
    for place, (name, maker) in enumerate(networks.items()):
        forms = {*FEW, MORE[place % len(MORE)], OLDER[place % len(OLDER)]}
        if name in IN_EVERY_FORM:
            exporters = list(EXPORTERS)
            forms |= {(exporters[k % len(exporters)], tool) for k, tool in enumerate(TOOLS)}
            forms |= {(exporter, "float32") for exporter in exporters}
            forms |= {(exporter, "qdq-s8s8") for exporter in exporters}
        for exporter, tool in sorted(forms):
            made = FileName("torch", name, f"{exporter}-{tool}", ".onnx")
            yield Making(made, lambda m=maker, e=exporter, t=tool: _file(m, e, t))


def _file(maker: Callable[[], Any], exporter: str, tool: str) -> bytes:
    prepare = {"fx": _observed, "trained": _fake_quantised}.get(tool)
    raw = _exported(maker, exporter, dynamic_batch=tool == "batch", prepare=prepare)
    model = onnx.ModelProto.FromString(raw)
    if tool == "dynamic":
        return _dynamic(raw)
    if tool == "float16":
        from onnxconverter_common import float16

        return bytes(float16.convert_float_to_float16(model).SerializeToString())
    if tool in ("basic", "extended"):
        return _optimised(raw, tool)
    if tool.startswith("fused-"):
        return _optimised(_static(raw, *tool.split("-")[1:]), "extended")
    if tool.startswith("q"):
        return _static(raw, *tool.split("-"))
    return raw


def _exported(
    maker: Callable[[], Any],
    exporter: str,
    *,
    dynamic_batch: bool,
    prepare: Callable[[Any, Any], Any] | None,
) -> bytes:
    import torch

    torch.manual_seed(zlib.crc32(maker.__name__.encode()))
    torch.backends.mha.set_fastpath_enabled(False)  # which the older exporter does not know
    module, inputs = maker()
    _train(module)
    module.eval()
    if prepare is not None:
        module = prepare(module, inputs)
    dynamo, opset = EXPORTERS[exporter]
    options: dict[str, Any] = {}
    if dynamic_batch:
        names = [f"x{k}" for k in range(len(inputs))]
        options = dict(input_names=names)
        if dynamo:
            options["dynamic_shapes"] = tuple({0: torch.export.Dim("batch")} for _ in inputs)
        else:
            options["dynamic_axes"] = {name: {0: "batch"} for name in names}
    with tempfile.TemporaryDirectory(prefix="penstock-exporters-") as folder:
        path = Path(folder) / "m.onnx"
        with torch.no_grad():
            torch.onnx.export(
                module, inputs, str(path), opset_version=opset, dynamo=dynamo,
                external_data=False, verbose=False, **options,
            )  # fmt: skip
        return path.read_bytes()


def _observed(module: Any, inputs: Any) -> Any:
    """Quantised by torch itself, after observation."""
    import torch
    from torch.ao import quantization as q
    from torch.ao.quantization import quantize_fx

    mapping = q.get_default_qconfig_mapping("x86")
    observed = quantize_fx.prepare_fx(module, mapping, inputs)
    with torch.no_grad():
        for _ in range(CALIBRATION_SETS):
            observed(*inputs)
    return quantize_fx.convert_fx(observed)


def _fake_quantised(module: Any, inputs: Any) -> Any:
    """With torch's fake quantisation, as in training for it."""
    import torch
    from torch.ao import quantization as q
    from torch.ao.quantization import quantize_fx

    mapping = q.QConfigMapping().set_global(q.get_default_qat_qconfig("x86", version=0))
    trained = quantize_fx.prepare_qat_fx(module.train(), mapping, inputs)
    with torch.no_grad():
        for _ in range(CALIBRATION_SETS):
            trained(*inputs)
    trained.eval()
    trained.apply(q.disable_observer)
    return trained


def _train(module: Any) -> None:
    """Statistics and scales of normalisations as after training."""
    import torch

    for part in module.modules():
        if getattr(part, "running_mean", None) is not None:
            torch.nn.init.normal_(part.running_mean, 0.0, 0.3)
            torch.nn.init.uniform_(part.running_var, 0.5, 1.5)
        if "Norm" in type(part).__name__ and getattr(part, "weight", None) is not None:
            torch.nn.init.uniform_(part.weight, 0.5, 1.5)


def _static(raw: bytes, form: str, types: str) -> bytes:
    """By static quantisation; the form also decides on channels, ranges and preprocessing."""
    from onnxruntime import quantization as q
    from onnxruntime.quantization.shape_inference import quant_pre_process

    kinds = {"s": q.QuantType.QInt8, "u": q.QuantType.QUInt8}
    with tempfile.TemporaryDirectory(prefix="penstock-exporters-") as folder:
        source, target = Path(folder) / "f.onnx", Path(folder) / "q.onnx"
        source.write_bytes(raw)
        prepared = Path(folder) / "p.onnx"
        quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
        reader: Any = Calibration(onnx.ModelProto.FromString(raw))
        q.quantize_static(
            str(prepared), str(target), reader,
            quant_format=q.QuantFormat.QDQ if form == "qdq" else q.QuantFormat.QOperator,
            per_channel=types == "s8s8", reduce_range=types == "u8s8" and form == "qoperator",
            activation_type=kinds[types[0]], weight_type=kinds[types[2]],
            extra_options={"ActivationSymmetric": types == "s8s8" and form == "qoperator"},
        )  # fmt: skip
        return target.read_bytes()


def _dynamic(raw: bytes) -> bytes:
    from onnxruntime import quantization as q

    with tempfile.TemporaryDirectory(prefix="penstock-exporters-") as folder:
        source, target = Path(folder) / "f.onnx", Path(folder) / "q.onnx"
        source.write_bytes(raw)
        q.quantize_dynamic(str(source), str(target))
        return target.read_bytes()


def _optimised(raw: bytes, level: str) -> bytes:
    """As onnxruntime writes it after its optimisations."""
    import onnxruntime as runtime

    levels = runtime.GraphOptimizationLevel
    with tempfile.TemporaryDirectory(prefix="penstock-exporters-") as folder:
        options = runtime.SessionOptions()
        options.log_severity_level = 4
        options.optimized_model_filepath = str(Path(folder) / "o.onnx")
        options.graph_optimization_level = (
            levels.ORT_ENABLE_BASIC if level == "basic" else levels.ORT_ENABLE_EXTENDED
        )
        runtime.InferenceSession(raw, options, providers=["CPUExecutionProvider"])
        return Path(options.optimized_model_filepath).read_bytes()


class Calibration:
    """A reader of inputs, as onnxruntime asks for them."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._sets = iter([_drawn(model, number) for number in range(CALIBRATION_SETS)])

    def get_next(self) -> Mapping[str, Array] | None:
        """The next set of inputs; None after the last."""
        return next(self._sets, None)


def _drawn(model: onnx.ModelProto, number: int) -> dict[str, Array]:
    numbers = np.random.default_rng([5, number])
    found: dict[str, Array] = {}
    for border in model.graph.input:
        tensor = border.type.tensor_type
        shape = tuple(d.dim_value or 1 for d in tensor.shape.dim)
        kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        is_real = kind.kind == "f"
        drawn = numbers.normal(0, 1, shape) if is_real else numbers.integers(0, 6, shape)
        found[border.name] = drawn.astype(kind)
    return found
