from __future__ import annotations

import numpy as np
import pytest

from penstock.simulators.tflite_micro import run_tflite_micro
from tools.make_test_models import MODELS, NETWORKS, OPERATORS, calibrated_model, two_heads
from tools.network import Network


def test_an_int8_layer_stays_within_two_steps_of_the_real_one(runtime: None) -> None:
    rng = np.random.default_rng(3)
    w, b = rng.uniform(-1, 1, (5, 8)), rng.uniform(-1, 1, 5)
    net = Network()
    net.output(net.fully_connected("y", net.input("x", (1, 8)), w, b))
    values = rng.integers(-128, 128, (1, 8)).astype(np.int8)
    scale = 2 / 255  # of x, whose range is [-1, 1] and zero point round(-0.5) = 0
    expected = (values * scale) @ w.T + b
    model_bytes = net.tflite_bytes({"x": (-1, 1), "y": (-6, 6)})
    found = run_tflite_micro(model_bytes, (values,)).outputs[0] * (12 / 255)
    assert np.abs(found - expected).max() < 2 * 12 / 255


def test_a_window_that_slides_pads_and_dilates_has_the_shape_that_tflite_says() -> None:
    net = Network()
    x = net.input("x", (1, 13, 12, 3))
    w, b = np.ones((4, 3, 2, 3)), np.zeros(4)
    assert net.shape(net.conv("same", x, w, b, stride=(2, 3))) == (1, 7, 4, 4)
    assert net.shape(net.conv("valid", x, w, b, padding="VALID")) == (1, 11, 11, 4)
    window = net.conv("wide", x, w, b, dilation=(3, 2), padding="VALID")
    assert net.shape(window) == (1, 7, 10, 4)


def test_branches_that_are_joined_share_one_scale() -> None:
    net = Network()
    x = net.input("x", (1, 4, 4, 2))
    w, b = np.ones((2, 1, 1, 2)), np.zeros(2)
    parts = (net.conv("left", x, w, b), net.conv("right", x, w, b))
    net.output(net.concatenation("both", parts, axis=3))
    groups = {activation.name: activation.group for _, activation in net.activations()}
    assert groups["left"] == groups["right"] == groups["both"] != groups["x"]


def test_a_result_without_a_range_is_refused() -> None:
    net = Network()
    net.output(net.mean("m", net.input("x", (1, 4, 4, 2)), (1, 2), keep_dims=True))
    with pytest.raises(ValueError, match='no range is given for "m"'):
        net.tflite_bytes({"x": (0.0, 1.0)})


def test_two_tensors_of_one_name_are_refused() -> None:
    net = Network()
    net.input("x", (1, 4))
    with pytest.raises(ValueError, match='there are two tensors "x"'):
        net.input("x", (1, 4))


def test_the_script_writes_the_committed_bytes_again(runtime: None) -> None:
    model_bytes, _ = calibrated_model(two_heads())
    assert model_bytes == (MODELS / "two_heads.tflite").read_bytes()


def test_every_network_of_the_script_is_committed() -> None:
    committed = {path.stem for path in MODELS.glob("*.tflite")}
    assert committed == {build.__name__ for build in (*NETWORKS, *OPERATORS)}
