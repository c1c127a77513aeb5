"""Networks with float32 and uint8 inputs and outputs: both interfaces."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from available import path_of
from penstock import api
from penstock.choices import InterfaceTypes
from penstock.errors import ModelError
from penstock.toolchains.host import host_compiler
from tools.tflite_borders import with_border
from tools.tflite_writer import OperatorSpec, TensorSpec, write_tflite

IMAGE = TensorSpec("image", (1, 8, 6, 4), scales=(0.05,), zero_points=(3,))
SCORES = TensorSpec("scores", (1, 8, 6, 4), scales=(1 / 256,), zero_points=(-128,))
OUTSIDE = {
    "float32": ("DEQUANTIZE", {"dtype": "float32", "scales": (), "zero_points": ()}),
    "uint8": ("QUANTIZE", {"dtype": "uint8", "zero_points": (131,)}),
}


def network(kind: str) -> bytes:
    """Quantise, RELU6, LOGISTIC, dequantise."""
    last, changes = OUTSIDE[kind]
    tensors = (
        replace(IMAGE, name="in", **changes),
        IMAGE,
        replace(IMAGE, name="clamped"),
        SCORES,
        replace(SCORES, name="out", **changes),
    )
    names = ("QUANTIZE", "RELU6", "LOGISTIC", last)
    steps = [OperatorSpec(name, (k,), (k + 1,)) for k, name in enumerate(names)]
    return write_tflite(tensors, steps, (0,), (4,))


@pytest.fixture(params=sorted(OUTSIDE))
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"{request.param}.tflite"
    path.write_bytes(network(request.param))
    return path


@pytest.mark.parametrize("target", ["host", "cortex-m0plus"])
@pytest.mark.parametrize("io", ["quantized", "model"])
def test_every_rung_is_exact(model: Path, io: Literal["quantized", "model"], target: str) -> None:
    done = api.verify(model, target, io=io, every_point=True)
    assert done.passed
    program = done.compiled.compilation.program
    types = {view.type.dtype.value for view in (*program.inputs, *program.outputs)}
    assert types == ({"int8"} if io == "quantized" else {model.stem})


@pytest.mark.parametrize("streamed", [False, True])
def test_the_header_declares_the_model_s_element_types(
    model: Path, streamed: bool, tmp_path: Path
) -> None:
    """A C++ program that assigns the addresses to typed pointers compiles without a cast."""
    api.compile(model, "host", io="model", stream_input=streamed).write(tmp_path / "out")
    name, c_type = model.stem, {"float32": "float", "uint8": "uint8_t"}[model.stem]
    x = "" if streamed else f"{c_type} *x = {name}_input({name}_arena); x[0] = 0;"
    (tmp_path / "main.cc").write_text(f"""
        #include "{name}.h"
        int main() {{
            {x}
            const {c_type} *y = {name}_output({name}_arena);
            return y[0] != 0;
        }}
    """)
    command = (*host_compiler().command, "-x", "c++", "-Wall", "-Wextra", "-Werror")
    files = ("-fsyntax-only", f"-I{tmp_path / 'out'}", str(tmp_path / "main.cc"))
    subprocess.run([*command, *files], check=True)


@pytest.mark.parametrize("io", ["quantized", "model"])
def test_run_accepts_the_model_s_elements_and_those_of_the_generated_code(
    model: Path, io: Literal["quantized", "model"], tmp_path: Path
) -> None:
    drawn = np.random.default_rng(2).integers(-128, 128, (1, 8, 6, 4)).astype(np.int8)
    outside = (drawn.astype(np.int16) + 128).astype(np.uint8)
    if model.stem == "float32":
        outside = (drawn.astype(np.float32) - 3) * np.float32(0.05)
    np.save(tmp_path / "outside.npy", outside)
    np.save(tmp_path / "inside.npy", drawn)
    types = InterfaceTypes(io)
    sets = api.read_inputs(str(model), [tmp_path / "outside.npy"], io=types)
    (expected,) = api.run(model, "host", sets, io=io).outputs
    if io == "model":
        with pytest.raises(ModelError, match=f"must be {model.stem}\\[1,8,6,4\\]\n"):
            api.read_inputs(str(model), [tmp_path / "inside.npy"], io=types)
        return
    (found,) = api.run(
        model, "host", api.read_inputs(str(model), [tmp_path / "inside.npy"], io=types)
    ).outputs
    assert {name: y.tolist() for name, y in found.items()} == {
        name: y.tolist() for name, y in expected.items()
    }
    np.save(tmp_path / "other.npy", drawn.astype(np.int16))
    with pytest.raises(ModelError, match=f"{model.stem}\\[1,8,6,4\\] or int8\\[1,8,6,4\\]\n"):
        api.read_inputs(str(model), [tmp_path / "other.npy"], io=types)


def test_the_reference_agrees_with_tensorflow_lite_micro(model: Path, tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro", reason="the extra 'reference' is not installed")
    api.golden(model, tmp_path / "goldens.npz")
    done = api.verify(model, "host", tmp_path / "goldens.npz")
    assert done.passed
    reference = next(rung for rung in done.rungs if rung.step == "reference")
    assert reference.comparison.tensors >= 4


@pytest.mark.parametrize("kind", ["float32", "uint8"])
@pytest.mark.parametrize("name", ["hello_world_int8", "kws_ref_model"])
def test_real_networks_with_a_border_are_exact(
    name: str, kind: Literal["float32", "uint8"], tmp_path: Path
) -> None:
    path = tmp_path / f"{name}.tflite"
    path.write_bytes(with_border(Path(path_of(name)).read_bytes(), kind))
    done = api.verify(path, "host", io="model")
    assert done.passed
    program = done.compiled.compilation.program
    assert {v.type.dtype.value for v in (*program.inputs, *program.outputs)} == {kind}
