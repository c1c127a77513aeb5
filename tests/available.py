"""Models for tests of the whole pipeline: committed models, zoo networks and shared models."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

import beside
from penstock import api
from penstock.scheduling.options import Options

REPOSITORY = Path(__file__).resolve().parents[1]
MODELS = REPOSITORY / "tests" / "models"
DIGITS = REPOSITORY / "src" / "penstock" / "demo" / "digits.tflite"
SHARED = beside.MODELS
TARGET = "cortex-m4"

COMMITTED = tuple(sorted(path.stem for path in MODELS.glob("*.npz")))
"""Networks with goldens in `tests/models`."""
SMALL_VWW = "zoo:mobilenet_v1:alpha=0.25,resolution=96,classes=2"
"""A network with the structure of the shared model vww_96_int8."""
ZOO = ("zoo:lenet5", "zoo:resnet8", SMALL_VWW)
TAKEN = (
    "ad01_int8",
    "hello_world_int8",
    "kws_ref_model",
    "mbnet96_0.25_q",
    "micro_speech_quantized",
    "mobilenetv2_160_035",
    "person_detect",
    "pretrainedResnet_quant",
    "rand_mobilenet_v1_0.25_128_int8",
    "ssd_slim_120x160x1",
    "trained_lstm_int8",
    "vww_96_int8",
)
"""Shared networks that penstock supports."""
LARGE = (
    "rand_mobilenet_v1_1.0_224_int8",
    "rand_mobilenet_v2_0.35_144_int8",
    "zoo:mobilenet_v1",
)

every_model = pytest.mark.parametrize(
    "model",
    [
        *COMMITTED,
        *ZOO,
        *TAKEN,
        *(pytest.param(name, marks=pytest.mark.long) for name in LARGE),
    ],
)


def path_of(model: str) -> str:
    """The model argument of `penstock`; skips the test if the file does not exist."""
    if model.startswith("zoo:"):
        return model
    if model in COMMITTED:
        return str(DIGITS if model == "digits" else MODELS / f"{model}.tflite")
    return str(beside.needed(SHARED / f"{model}.tflite"))


def compiled(model: str, target: str = TARGET, options: Options | None = None) -> api.Compiled:
    """The compiled model, cached for all tests of a process."""
    return _compiled(model, target, options or Options())


@cache
def _compiled(model: str, target: str, options: Options) -> api.Compiled:
    return api.compile(path_of(model), target, options=options)
