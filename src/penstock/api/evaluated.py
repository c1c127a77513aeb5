"""`--evaluate`: the accuracy of a compiled network, beside that of the model in real numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from penstock.api.network import Network
from penstock.errors import ModelError, UsageError
from penstock.frontends.frameworks.conversion import evaluated
from penstock.frontends.frameworks.framework import framework_of
from penstock.frontends.onnx.file import Border, decode, load_all
from penstock.frontends.onnx.post_training import LABELS, Samples, read_labelled
from penstock.frontends.open import read_bytes, unpacked
from penstock.ir.tensor import Array
from penstock.pipeline.compilation import Compilation
from penstock.pipeline.request import Request
from penstock.reports.accuracy import Evaluation, evaluation
from penstock.reports.report import InterfaceTensor
from penstock.simulators.onnx_reference import OnnxSession


def evaluations(wanted: Request, done: Compilation, archive: Path) -> tuple[Evaluation, ...]:
    """The accuracy of each output for the samples in an archive.

    archive: an array for each input, in the shape of the model's file, and for outputs what is
        expected of them, see `read_labelled`.

    Raises ModelError for an archive that does not fit, UsageError for labels that do not, ToolError
    without a C compiler or if the framework cannot run the model, UnsupportedError if an
    accelerator has no model of its driver in C."""
    network = Network.of(done)
    names = [tensor.name for tensor in network.outputs]
    inputs = [Border(x.name, _element_type(x), x.file_shape) for x in network.inputs]
    limit_bytes = wanted.reading.size_limit_bytes
    samples, expected = read_labelled(archive, inputs, names, limit_bytes)
    x = {x.name: _in_c(np.stack([one[x.name] for one in samples]), x) for x in network.inputs}
    found = network.predict(x)
    outputs = found if isinstance(found, dict) else {names[0]: found}
    real = _real_outputs(wanted, samples)
    if real is None and not expected:
        raise ModelError(
            "calibration-007",
            "there is nothing to compare the outputs with",
            where=str(archive),
            why="the archive has inputs only, and the model in real numbers is not known",
            help=f'add an array "{LABELS}" or one per output, named after it: {", ".join(names)}',
        )
    try:
        return tuple(
            evaluation(
                y.name,
                _rows(outputs[y.name].reshape(-1, *y.shape)),
                None if real is None else _rows(_in_c(real[k].reshape(-1, *y.file_shape), y)),
                _expected(expected.get(y.name), y),
            )
            for k, y in enumerate(network.outputs)
        )
    except UsageError as error:
        raise error.but(where=str(archive)) from None


def _element_type(tensor: InterfaceTensor) -> str:
    return "float32" if tensor.scale is not None else tensor.element_type


def _in_c(array: Array, tensor: InterfaceTensor) -> Array:
    """Samples in the shape of the model's file, with their axes as in the generated code."""
    return array.transpose(0, *(1 + axis for axis in tensor.order)) if tensor.order else array


def _rows(array: Array) -> Array:
    """Samples without the batch axis, if it has extent 1."""
    return array[:, 0] if array.ndim > 1 and array.shape[1] == 1 else array


def _expected(array: Array | None, tensor: InterfaceTensor) -> Array | None:
    """What is expected, with the axes of the generated code if it has those of the output."""
    shape = tensor.file_shape
    if array is None or array.shape[1:] not in (shape, shape[1:]):
        return array
    return _rows(_in_c(array.reshape(-1, *shape), tensor))


def _real_outputs(wanted: Request, samples: Samples) -> list[Array] | None:
    """The outputs of the model before it was quantised: an array for each output, whose first axis
    is the sample; None if the file is the model that was compiled."""
    if wanted.graph is not None or wanted.model.startswith("zoo:"):
        return None
    path = Path(wanted.model)
    limit_bytes = wanted.reading.size_limit_bytes
    raw = read_bytes(path, limit_bytes)
    framework = framework_of(raw, path.name)
    if framework is not None:
        return evaluated(path, framework, samples)
    if wanted.reading.calibration is None:
        return None
    return _outputs_of_onnxruntime(unpacked(raw, path.name, limit_bytes), path, samples)


def _outputs_of_onnxruntime(raw: bytes, path: Path, samples: Samples) -> list[Array]:
    model = onnx.ModelProto.FromString(raw)
    load_all(model, path.name, path.parent)
    session = OnnxSession(model, path.name)
    types = {border.name: border.dtype for border in decode(raw, path.name, path.parent).inputs}
    names = [value.name for value in model.graph.output]
    found = [
        session.run(names, {name: x.astype(types[name]) for name, x in sample.items()})
        for sample in samples
    ]
    return [np.stack([one[name] for one in found]) for name in names]
