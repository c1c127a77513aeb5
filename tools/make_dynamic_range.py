"""Writes `tests/unit/ops/dynamic_range.npz`: layers of real numbers with int8 weights, and what
TensorFlow's reference kernels compute.

    python -m tools.make_dynamic_range      in an environment with tensorflow

TensorFlow Lite Micro has no such layers.  Inputs are random, or the 256 levels of an image between
-1 and 1, all of whose steps lie between two integers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.tflite_writer import OperatorSpec, OptionValue, TensorSpec, write_tflite

PATH = Path("tests/unit/ops/dynamic_range.npz")
INPUTS = 3
Array = NDArray[Any]
WINDOW: dict[str, OptionValue] = {"padding": 0, "stride_h": 2, "stride_w": 1}
ACTIVE: dict[str, OptionValue] = {**WINDOW, "fused_activation_function": 1}
DILATED: dict[str, OptionValue] = {**ACTIVE, "dilation_h_factor": 1, "dilation_w_factor": 1}


def networks() -> Iterator[tuple[str, bytes]]:
    """The models, by name."""
    rng = np.random.default_rng(0)
    for scales in ("channels", "tensor"):
        yield (
            f"convolution, a scale for {scales}",
            layer(rng, "CONV_2D", (1, 6, 7, 3), (5, 3, 2, 3), (1, 3, 7, 5), DILATED, scales),
        )
    yield "depthwise", layer(
        rng, "DEPTHWISE_CONV_2D", (1, 6, 7, 3), (1, 3, 2, 6), (1, 3, 7, 6),
        {**DILATED, "depth_multiplier": 2}, "channels",
    )  # fmt: skip
    for is_asymmetric in (False, True):
        yield f"rows, asymmetric {is_asymmetric}", layer(
            rng, "FULLY_CONNECTED", (4, 30), (5, 30), (4, 5),
            {"fused_activation_function": 0, "asymmetric_quantize_inputs": is_asymmetric}, "tensor",
        )  # fmt: skip
        yield f"recurrent, asymmetric {is_asymmetric}", lstm(rng, 2, 5, 6, 7, is_asymmetric)
    for scales in ("channels", "tensor"):
        yield (
            f"transposed, a scale for {scales}",
            layer(rng, "TRANSPOSE_CONV", (2, 3, 4, 3), (5, 3, 2, 3), (2, 6, 4, 5), ACTIVE, scales),
        )


def layer(
    rng: np.random.Generator,
    operator: str,
    x: tuple[int, ...],
    w: tuple[int, ...],
    y: tuple[int, ...],
    options: dict[str, OptionValue],
    scales: str,
) -> bytes:
    """A layer with bias; weights have a scale for each of the `channels`, or for the `tensor`."""
    axis = 3 if operator == "DEPTHWISE_CONV_2D" else 0
    count = w[axis] if scales == "channels" else 1
    tensors = [
        TensorSpec("x", x, "float32"),
        TensorSpec(
            "w", w, scales=tuple(rng.uniform(0.001, 0.02, count).tolist()),
            zero_points=(0,) * count, quantized_dimension=axis,
            data=rng.integers(-127, 128, w).astype(np.int8),
        ),
        TensorSpec("b", y[-1:], "float32", data=rng.normal(size=y[-1:]).astype(np.float32)),
        TensorSpec("y", y, "float32"),
    ]  # fmt: skip
    places: tuple[int, ...] = (0, 1, 2)
    if operator == "TRANSPOSE_CONV":
        tensors.append(TensorSpec("shape", (4,), "int32", data=np.array(y, np.int32)))
        places = (4, 1, 0, 2)
    node = OperatorSpec(operator, places, (3,), options)
    return write_tflite(tuple(tensors), (node,), (0,), (3,))


def lstm(
    rng: np.random.Generator, batch: int, steps: int, depth: int, units: int, is_asymmetric: bool
) -> bytes:
    """A layer whose input weights and recurrent weights are int8."""
    tensors = [TensorSpec("x", (batch, steps, depth), "float32")]

    def added(spec: TensorSpec) -> int:
        tensors.append(spec)
        return len(tensors) - 1

    def weights(columns: int) -> list[int]:
        elements = rng.integers(-127, 128, (4, units, columns)).astype(np.int8)
        return [
            added(
                TensorSpec(
                    f"w{len(tensors)}", gate.shape, scales=(rng.uniform(0.001, 0.01),),
                    zero_points=(0,), data=gate,
                )
            )
            for gate in elements
        ]  # fmt: skip

    places = [0, *weights(depth), *weights(units), -1, -1, -1]
    for _ in range(4):
        bias = rng.normal(size=units).astype(np.float32)
        places.append(added(TensorSpec(f"b{len(tensors)}", (units,), "float32", data=bias)))
    places += [-1, -1]
    for name in ("hidden", "cell"):
        places.append(added(TensorSpec(name, (batch, units), "float32", is_variable=True)))
    places += [-1, -1, -1, -1]
    y = added(TensorSpec("y", (batch, steps, units), "float32"))
    options: dict[str, OptionValue] = {
        "fused_activation_function": 4, "cell_clip": 1.5, "proj_clip": 0.0, "time_major": False,
        "asymmetric_quantize_inputs": is_asymmetric,
    }  # fmt: skip
    node = OperatorSpec("UNIDIRECTIONAL_SEQUENCE_LSTM", tuple(places), (y,), options)
    return write_tflite(tuple(tensors), (node,), (0,), (y,))


def answers(raw: bytes, xs: Array) -> Array:
    """What TensorFlow's reference kernels compute, without states from earlier runs."""
    import tensorflow as tf

    lite: Any = tf.lite
    kernels = lite.experimental.OpResolverType.BUILTIN_REF
    model = lite.Interpreter(model_content=raw, experimental_op_resolver_type=kernels)
    model.allocate_tensors()
    found: list[Array] = []
    for x in xs:
        model.reset_all_variables()
        model.set_tensor(model.get_input_details()[0]["index"], x)
        model.invoke()
        found.append(model.get_tensor(model.get_output_details()[0]["index"]))
    return np.array(found)


def main() -> None:
    import tensorflow as tf

    arrays: dict[str, Array] = {"version": np.array(tf.__version__)}
    for name, raw in networks():
        rng = np.random.default_rng(len(arrays))
        shape = (INPUTS, *_input_shape(raw))
        xs = rng.normal(size=shape).astype(np.float32)
        xs[0] = rng.integers(0, 256, shape[1:]) / np.float32(127.5) - np.float32(1)
        xs[0].flat[:2] = -1, 1
        arrays |= {f"{name}/model": np.frombuffer(raw, np.uint8), f"{name}/x": xs}
        arrays[f"{name}/y"] = answers(raw, xs)
    np.savez_compressed(PATH, **arrays)  # pyright: ignore[reportArgumentType]


def _input_shape(raw: bytes) -> tuple[int, ...]:
    import tensorflow as tf

    lite: Any = tf.lite
    return tuple(lite.Interpreter(model_content=raw).get_input_details()[0]["shape"])


if __name__ == "__main__":
    main()
