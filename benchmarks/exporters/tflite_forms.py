"""TFLite files of Keras models: by the converter's kinds of quantisation, and trained for it."""

# pyright: reportMissingImports=false, reportMissingModuleSource=false
# The packages are in the extra `exporters`.

from __future__ import annotations

import os
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.exporters import keras_blocks, keras_networks
from benchmarks.exporters.keras_networks import Maker
from benchmarks.exporters.making import FileName, Making
from penstock.ir.tensor import Array

COMMON = {**keras_networks.COMMON, **keras_blocks.COMMON}
KERAS_3 = {**keras_networks.KERAS_3, **keras_blocks.KERAS_3}
CALIBRATION_SETS = 8
QUANTISED = ("int8", "float-borders", "uint8-borders", "per-tensor", "dynamic", "int16x8")
WAYS = ("fixed", "saved", "strict")  # int8, with a batch of one, of a saved model, without float32.
FORMS = ("float32", "float16", *QUANTISED, *WAYS)
# Networks that are made in every form; the others as int8, and one of the others.
IN_EVERY_FORM = ("lenet", "lstm", "transformer")
OTHERS = ("dynamic", "float32", "float-borders")
# Networks of tf_keras: those that its converter writes in another way, and some plain ones.
LEGACY = ("lenet", "mobilenet", "efficient", "unet", "lstm", "stacked_lstm", "gru", "simple_rnn",
          "bidirectional", "bidirectional_gru", "lstm_autoencoder", "conv_lstm", "text",
          "text_lstm", "transformer", "group_norm", "tabular", "activations", "temporal",
          "siamese", "lstm_states", "masked_lstm", "conv_lstm_2d", "gru_seq", "wavenet",
          "seq2seq", "volumes", "mobilenet_v2", "signal_unet")  # fmt: skip
LOOPS = ("lstm", "stacked_lstm", "gru", "simple_rnn", "bidirectional", "bidirectional_gru",
         "lstm_autoencoder", "conv_lstm", "text_lstm", "gru_seq", "lstm_states", "masked_lstm",
         "conv_lstm_2d")  # fmt: skip
FUSED = ("lstm", "stacked_lstm", "bidirectional", "lstm_autoencoder", "conv_lstm", "text_lstm")
# Loops of tf_keras that become one operator; the converter's calibration ends with the others.
TRAINED = ("lenet", "ds_cnn", "residual", "mobilenet", "dense_autoencoder", "inception", "fusion",
           "mobilenet_v2", "densenet", "squeezenet", "audio", "unet")  # fmt: skip


def keras_files() -> Iterator[Making]:
    """The files of Keras 3."""
    for place, (name, maker) in enumerate({**COMMON, **KERAS_3}.items()):
        few = ("int8", OTHERS[place % len(OTHERS)], WAYS[place % len(WAYS)])
        forms = FORMS if name in IN_EVERY_FORM else few
        if name in LOOPS:  # the converter's calibration ends the process
            forms = ("float32", "float16", "dynamic")
        for form in forms:
            yield _making("keras", name, form, lambda m=maker, f=form: _file(m, f))


def tf_keras_files() -> Iterator[Making]:
    """The files of tf_keras, and of the toolkit that trains for quantisation."""
    for name in LEGACY:
        maker = COMMON[name]
        forms = ("int8", "float32") if name in IN_EVERY_FORM else ("int8",)
        if name in LOOPS and name not in FUSED:
            forms = ("float32",)
        for form in forms:
            yield _making("tf_keras", name, form, lambda m=maker, f=form: _file(m, f, 1))
    for place, name in enumerate(TRAINED):
        maker = COMMON[name]
        for form in ("int8", "float-borders") if place < 2 else ("int8",):
            yield _making("tfmot", name, form, lambda m=maker, f=form: _trained(m, f))


def _making(framework: str, network: str, form: str, make: Callable[[], bytes]) -> Making:
    return Making(FileName(framework, network, form, ".tflite"), make)


def _framework(legacy: int) -> Any:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    if legacy:
        os.environ["TF_USE_LEGACY_KERAS"] = "1"
        import tf_keras

        return tf_keras
    import keras

    return keras


def _model(maker: Maker, legacy: int, batch: int | None = None) -> Any:
    """A model with statistics and biases as after training."""
    framework = _framework(legacy)
    seed = zlib.crc32(maker.__name__.encode())
    framework.backend.clear_session()
    framework.utils.set_random_seed(seed)
    model = maker(_Namespace(framework, batch))
    numbers = np.random.default_rng(seed)
    for variable in model.weights:
        if len(variable.shape) == 1 and "float" in str(variable.dtype):
            change = np.abs(numbers.normal(0, 0.15, variable.shape)).astype(np.float32)
            variable.assign(variable + change)
    return model


class _Namespace:
    """A framework whose inputs have a batch of this size."""

    def __init__(self, framework: Any, batch: int | None) -> None:
        self._framework, self._batch = framework, batch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._framework, name)

    def Input(self, shape: tuple[int, ...], **options: Any) -> Any:
        return self._framework.Input(shape, batch_size=self._batch, **options)


def _file(maker: Maker, form: str, legacy: int = 0) -> bytes:
    """The file; with a batch of one also where the converter demands that, as for loops."""
    is_fixed = form == "fixed" or maker.__name__ in LOOPS
    model = _model(maker, legacy, 1 if is_fixed else None)
    with tempfile.TemporaryDirectory(prefix="penstock-exporters-") as folder:
        return _converted(_converter(model, form, folder), model.inputs, form)


def _converter(model: Any, form: str, folder: str) -> Any:
    import tensorflow as tf

    if form == "saved":
        model.export(folder, verbose=False)
        return tf.lite.TFLiteConverter.from_saved_model(folder)
    return tf.lite.TFLiteConverter.from_keras_model(model)


def _converted(converter: Any, borders: Sequence[Any], form: str) -> bytes:
    import tensorflow as tf

    if form != "float32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if form == "float16":
        converter.target_spec.supported_types = [tf.float16]
    elif form not in ("float32", "dynamic"):
        converter.representative_dataset = lambda: _named(borders)
        ops = tf.lite.OpsSet
        every = ops.TFLITE_BUILTINS_INT8
        if form == "int16x8":
            every = ops.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8
        # Users add the builtins that int8 lacks when the converter asks for them.
        more = [] if form == "strict" else [ops.TFLITE_BUILTINS]
        converter.target_spec.supported_ops = [every, *more]
        kind = {"uint8-borders": tf.uint8, "int16x8": None, "float-borders": None}.get(
            form, tf.int8
        )
        if kind is not None and all("float" in str(border.dtype) for border in borders):
            converter.inference_input_type = kind
            converter.inference_output_type = kind
        if form == "per-tensor":
            converter._experimental_disable_per_channel = True
    return bytes(converter.convert())


def _named(borders: Sequence[Any]) -> Iterator[Any]:
    """Samples, by name if there are several: the converter orders inputs in its own way."""
    for drawn in samples(borders):
        names = [border.name.split(":")[0] for border in borders]
        yield dict(zip(names, drawn, strict=True)) if len(borders) > 1 else drawn


def samples(borders: Sequence[Any]) -> Iterator[list[Array]]:
    """Inputs for calibration: normal numbers, and the indices that embeddings have."""
    numbers = np.random.default_rng(17)
    for _ in range(CALIBRATION_SETS):
        yield [_drawn(numbers, border) for border in borders]


def _drawn(numbers: np.random.Generator, border: Any) -> Array:
    shape = tuple(extent or 1 for extent in border.shape)
    if "int" in str(border.dtype):
        return numbers.integers(0, 6, shape).astype(np.int32)
    return numbers.normal(0, 1, shape).astype(np.float32)


def _trained(maker: Maker, form: str) -> bytes:
    """The file of a model trained a step with fake quantisation."""
    model = _model(maker, 1)
    import tensorflow_model_optimization as toolkit

    aware = toolkit.quantization.keras.quantize_model(model)
    aware.compile("adam", "mse")
    inputs = [np.concatenate(each) for each in zip(*samples(aware.inputs), strict=True)]
    targets = aware(inputs if len(inputs) > 1 else inputs[0])
    aware.fit(inputs if len(inputs) > 1 else inputs[0], targets, epochs=2, verbose=0)
    return _converted_trained(aware, form)


def _converted_trained(model: Any, form: str) -> bytes:
    import tensorflow as tf

    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if form == "int8":
        converter.inference_input_type = tf.int8
        converter.inference_output_type = tf.int8
    return bytes(converter.convert())
