"""Files for the error messages: a small model, damaged models, archives, targets."""

from __future__ import annotations

import gzip
import json
import shutil
import struct
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import tflite
from onnx import ModelProto, TensorProto, helper

from benchmarks.file_fields import file_fields
from minimal_tflite import ints, model_bytes, table
from penstock.hardware.load import target_text
from tools.onnx_writer import Model
from tools.stateful_network import ExplicitNetwork, StatefulNetwork
from tools.tflite_writer import OperatorSpec, TensorSpec, write_tflite

X = TensorSpec("pixels", (1, 4), scales=(0.5,), zero_points=(3,))
Y = TensorSpec("clamped", (1, 4), scales=(0.5,), zero_points=(3,))
RELU = OperatorSpec("RELU", (0,), (1,))
GOOD = write_tflite((X, Y), (RELU,), (0,), (1,))
MODELS = Path(__file__).parents[1] / "models"


def changed(label: str, value: float, raw: bytes = GOOD) -> bytes:
    """A model file in which the first number of that label is another."""
    place = next(field for field in file_fields(raw) if field.label == label)
    edited = bytearray(raw)
    struct.pack_into(place.format, edited, place.position, value)
    return bytes(edited)


def conv(bias: int = 0, zero: int = 0, scale: float = 0.5, padding: int = 1) -> bytes:
    """A convolution of one tap."""
    tensors = (
        TensorSpec("x", (1, 2, 2, 1), scales=(0.5,), zero_points=(0,)),
        TensorSpec("w", (1, 1, 1, 1), scales=(0.5,), zero_points=(zero,),
                   data=np.ones((1, 1, 1, 1), np.int8)),
        TensorSpec("b", (1,), "int32", data=np.array([bias], np.int32)),
        TensorSpec("y", (1, 2, 2, 1), scales=(scale,), zero_points=(0,)),
    )  # fmt: skip
    options = {"padding": padding, "stride_w": 1, "stride_h": 1, "dilation_w_factor": 1,
               "dilation_h_factor": 1}  # fmt: skip
    return write_tflite(tensors, (OperatorSpec("CONV_2D", (0, 1, 2), (3,), options),), (0,), (3,))


def binary(operator: str, a: TensorSpec, b: TensorSpec, y: TensorSpec = Y) -> bytes:
    """An operator of two computed inputs."""
    return write_tflite((a, b, y), (OperatorSpec(operator, (0, 1), (2,)),), (0, 1), (2,))


def pooled() -> bytes:
    """A pool with stride 2 over 8 frames."""
    x = TensorSpec("frames", (1, 8, 1, 4), scales=(0.5,), zero_points=(0,))
    options = {"padding": 1, "stride_w": 1, "stride_h": 2, "filter_width": 1, "filter_height": 2}
    operator = OperatorSpec("MAX_POOL_2D", (0,), (1,), options)
    return write_tflite((x, replace(x, name="pooled", shape=(1, 4, 1, 4))), (operator,), (0,), (1,))


def softmax() -> bytes:
    """A softmax over all elements."""
    y = replace(Y, scales=(1 / 256,), zero_points=(-128,))
    return write_tflite((X, y), (OperatorSpec("SOFTMAX", (0,), (1,), {"beta": 1.0}),), (0,), (1,))


def sparse() -> bytes:
    """A RELU of a tensor whose elements are stored sparsely."""
    tensors = [
        table("Tensor", Name=name, Shape=ints(1, 4), Type=tflite.TensorType.INT8, **more)
        for name, more in (("pixels", {"Sparsity": table("SparsityParameters")}), ("clamped", {}))
    ]
    main = table(
        "SubGraph",
        Tensors=tensors,
        Inputs=ints(0),
        Outputs=ints(1),
        Operators=[table("Operator", Inputs=ints(0), Outputs=ints(1))],
    )
    relu = table("OperatorCode", BuiltinCode=tflite.BuiltinOperator.RELU)
    buffers = [table("Buffer")]
    return model_bytes(
        table("Model", Version=3, OperatorCodes=[relu], Subgraphs=[main], Buffers=buffers)
    )


def onnx(*, quantised: bool = True, batch: int | str = 1) -> bytes:
    """An ONNX model of one node."""
    model = Model(quantised=quantised)
    return model.raw(model.node("Sqrt", model.input(batch, 4)))


def onnx_of_any_width() -> bytes:
    """A model that leaves the width of its input open."""
    model = Model()
    return model.raw(model.node("Relu", model.input(1, "width")))


def onnx_cycle() -> bytes:
    """An Add that reads what it writes."""
    model = Model()
    model.node("Add", model.input(1, 4), "add2_0_d")
    return model.raw("add2_0_d")


def computed_state() -> bytes:
    """A variable whose initial value is computed."""
    net = StatefulNetwork(np.random.default_rng(0))
    x = net.tensor((1, 1, 1, 4), 0.5, 0)
    y = net.delay(x)
    net.first_operators[-1:] = [
        OperatorSpec("RELU", (1,), (1,)),
        OperatorSpec("ASSIGN_VARIABLE", (0, 1), ()),
    ]
    return net.tflite(x, y)


def two_streams() -> bytes:
    """A network with state and two inputs."""
    net = StatefulNetwork(np.random.default_rng(0))
    x = net.tensor((1, 1, 1, 4), 0.5, 0)
    other = net.alike(x, 1)
    return net.tflite(x, net.apply("ADD", (net.residual(x), other), net.alike(x, 1)), other)


def explicit_state() -> bytes:
    """A network with a state as input "x2" and output "x1"."""
    net = ExplicitNetwork(np.random.default_rng(0))
    x = net.tensor((1, 1, 1, 4), 0.5, 0)
    y = net.residual(x)
    return net.tflite(x, net.apply("RELU", (y,), net.tensor((1, 1, 1, 4), 0.25, 0)))


def shared_state() -> bytes:
    """Two operators that read one variable tensor."""
    tensors = (X, replace(X, name="state", is_variable=True), replace(Y, name="sum"), Y)
    operators = (OperatorSpec("ADD", (0, 1), (2,)), OperatorSpec("ADD", (2, 1), (3,)))
    return write_tflite(tensors, operators, (0,), (3,))


def onnx_elsewhere() -> bytes:
    """A convolution whose weights lie in a file that is not there."""
    model = Model()
    model.node("Conv", model.input(1, 2, 4, 4), model.weights(3, 2, 1, 1))
    weights = next(c for c in model.constants if len(c.dims) == 4)
    weights.ClearField("raw_data")
    weights.data_location = weights.EXTERNAL
    entry = weights.external_data.add()
    entry.key, entry.value = "location", "weights.bin"
    return model.raw("conv3_0_d")


def onnx_of_integers() -> bytes:
    """A QuantizeLinear of integers, without a DequantizeLinear before it."""
    model = Model()
    model.input(1, 4)
    scale = model.constant(np.float32(0.5))
    return model.raw(model.node("QuantizeLinear", "x_q", scale, scale=None))


def onnx_no_scale() -> bytes:
    """A model with an input of double precision, which a QuantizeLinear reads."""
    model = Model()
    proto = ModelProto.FromString(model.raw(model.node("Relu", model.input(1, 4))))
    proto.graph.input[0].type.tensor_type.elem_type = TensorProto.DOUBLE
    return proto.SerializeToString()


def onnx_halves() -> bytes:
    """A model whose inputs and outputs are float16."""
    borders = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, (1, 4)) for name in "xy"]
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "g", *([b] for b in borders)
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)])
    return model.SerializeToString()


def onnx_permuted() -> bytes:
    """A Transpose that names an axis twice."""
    model = Model()
    return model.raw(model.node("Transpose", model.input(1, 4), perm=[1, 1]))


ONNX_FILES = {
    "damaged.onnx": onnx()[:-40],
    "opset_6.onnx": Model(opset=6).raw("x"),
    "elsewhere.onnx": onnx_elsewhere(),
    "cycle.onnx": onnx_cycle(),
    "permuted.onnx": onnx_permuted(),
    "integers.onnx": onnx_of_integers(),
    "floats.onnx": onnx(quantised=False),
    "no_scale.onnx": onnx_no_scale(),
    "halves.onnx": onnx_halves(),
    "any_batch.onnx": onnx(batch="batch"),
    "any_width.onnx": onnx_of_any_width(),
    "many_rows.onnx": onnx(batch=2**20),
    "empty.tflite": b"",
    "half.tflite.gz": gzip.compress(GOOD)[:-20],
}

MODEL_FILES = {
    "good.tflite": GOOD,
    "one_pixel.tflite": write_tflite(
        (replace(X, shape=(1, 1)), replace(Y, shape=(1, 1))), (RELU,), (0,), (1,)
    ),
    "pooled.tflite": pooled(),
    "softmax.tflite": softmax(),
    "scale_is_nan.tflite": changed("scale", float("nan")),
    "version_2.tflite": changed("version", 2),
    "half_floats.tflite": changed("type", 1),
    "pages.tflite": b"%PDF-1.7 this is no model",
    "padding_7.tflite": conv(padding=7),
    "one_input.tflite": write_tflite(
        (X, Y), (OperatorSpec("ADD", (0,), (1,)),), (0,), (1,)
    ),
    "weights_off_zero.tflite": conv(zero=9),
    "wrong_shape.tflite": write_tflite((X, replace(Y, shape=(1, 5))), (RELU,), (0,), (1,)),
    "cycle.tflite": write_tflite((X, Y), (OperatorSpec("RELU", (1,), (1,)),), (0,), (1,)),
    "rfft2d.tflite": changed("builtin", 131),
    "floats.tflite": write_tflite((replace(X, dtype="float32"), Y), (RELU,), (0,), (1,)),
    "no_elements.tflite": write_tflite(
        (replace(X, shape=(0, 4)), replace(Y, shape=(0, 4))), (RELU,), (0,), (1,)
    ),
    "two_scales.tflite": binary("MAXIMUM", X, replace(X, name="other", scales=(0.25,))),
    "scales_apart.tflite": write_tflite(
        (replace(X, scales=(2.0**20,)), replace(Y, scales=(2.0**-20,))), (RELU,), (0,), (1,)
    ),
    "bias_too_large.tflite": conv(bias=2**31 - 1),
    "sparse.tflite": sparse(),
    "computed_state.tflite": computed_state(),
    "explicit_state.tflite": explicit_state(),
    "shared_state.tflite": shared_state(),
    "two_streams.tflite": two_streams(),
    "truths.tflite": binary("LESS", X, X, replace(Y, dtype="bool", scales=(), zero_points=())),
}  # fmt: skip


def write_broken_files(folder: Path) -> None:
    """Writes every file."""
    for name, raw in (MODEL_FILES | ONNX_FILES).items():
        (folder / name).write_bytes(raw)
    host = target_text("host")
    (folder / "not_toml.toml").write_text("[compiler")
    (folder / "no_size.toml").write_text(host.replace('size = "1GiB"', 'size = "much"', 1))
    (folder / "no_arena.toml").write_text(host.replace('holds = ["arena"]', 'holds = ["constant"]'))
    (folder / "linked").mkdir()
    (folder / "linked" / "src").symlink_to("elsewhere")
    flags = 'gcc = ["-fplugin=./evil.so"]'
    (folder / "hostile_flag.toml").write_text(host.replace("gcc = []", flags))
    np.save(folder / "shape_3.npy", np.zeros(3, np.int8))
    np.save(folder / "two_runs.npy", np.zeros((2, 1, 1, 1, 4), np.int8))
    np.save(folder / "three_runs.npy", np.zeros((3, 1, 1, 1, 4), np.int8))
    (folder / "no_array.npy").write_bytes(b"no array")
    (folder / "no_archive.npz").write_bytes(b"no archive")
    (folder / "damaged.keras").write_bytes(b"PK\x03\x04 damaged")
    with zipfile.ZipFile(folder / "net.keras", "w") as archive:
        archive.writestr("config.json", "{}")
    np.savez(folder / "three_columns.npz", x=np.zeros((9, 1, 3), np.float32))
    np.save(folder / "three_columns.npy", np.zeros((1, 3), np.float32))
    np.savez(folder / "pixels.npz", pixels=np.ones((1, 4), np.float32))
    np.savez(folder / "samples.npz", x=np.ones((1, 4), np.float32))
    np.savez(folder / "no_samples.npz", x=np.zeros((0, 4), np.float32))
    shutil.copy(MODELS / "onnx" / "recurrent.onnx", folder)
    shutil.copy(MODELS / "arithmetic.npz", folder / "of_another_model.npz")
    zeros, nines = np.zeros((1, 4), np.int8), np.full((1, 4), 99, np.int8)
    np.savez(folder / "wrong_answers.npz", in0_set0=zeros, out0_set0=nines)
    meta = json.dumps({"tensor_crc32_set": 9, "tensor_crc32": {"0": 1}})
    np.savez(folder / "contradiction.npz", in0_set0=zeros, out0_set0=nines, meta=meta)
