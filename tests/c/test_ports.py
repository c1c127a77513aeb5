"""Inputs and outputs of every element type: the header's macros and functions, and the example.

The expected numbers are those of TensorFlow Lite Micro."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from test_programs import cxx_command
from test_warnings import Kind, compiler_named

from penstock import api
from penstock.codegen.c_program import c_sources
from penstock.ir.tensor import Array, DType, Quantisation, TensorType
from penstock.reports.report import InterfaceTensor
from penstock.simulators.tflite_micro_child import fresh_interpreter
from penstock.toolchains.compiler import WARNINGS_AS_ERRORS, compile_objects
from penstock.toolchains.host import host_compiler, link_executable, run_executable
from tools.tflite_writer import OperatorSpec, TensorSpec, write_tflite

SHAPE = (1, 2, 3, 2)
OUTSIDE = {
    "int8": TensorSpec("x", SHAPE, scales=(0.06,), zero_points=(-7,)),
    "uint8": TensorSpec("x", SHAPE, "uint8", (0.05,), (131,)),
    "int16": TensorSpec("x", SHAPE, "int16", (0.0003,), (-9,)),
    "int32": TensorSpec("x", SHAPE, "int32", (0.00001,), (0,)),
    "float32": TensorSpec("x", SHAPE, "float32"),
}
HELPED = ("int8", "uint8", "int16")
"""Element types that the header's functions convert in both directions."""
WARNINGS = (*WARNINGS_AS_ERRORS, "-Wdouble-promotion", "-Wfloat-conversion")


def network(x: TensorSpec, y: TensorSpec) -> bytes:
    """Converts x to int8, adds different constants to its elements, and converts to y.

    The sums are an output too."""
    steps = np.arange(-60, 60, 10).astype(np.int8).reshape(SHAPE)
    inside = TensorSpec("inside", SHAPE, scales=(0.05,), zero_points=(3,))
    sums = TensorSpec("sums", SHAPE, scales=(0.04,), zero_points=(5,))
    constant = TensorSpec("steps", SHAPE, scales=(0.05,), zero_points=(0,), data=steps)
    tensors = (_named(x, "x"), inside, constant, sums, _named(y, "y"))
    last = "DEQUANTIZE" if y.dtype == "float32" else "QUANTIZE"
    operators = [
        OperatorSpec("QUANTIZE", (0,), (1,)),
        OperatorSpec("ADD", (1, 2), (3,), {"fused_activation_function": 0}),
        OperatorSpec(last, (3,), (4,)),
    ]
    return write_tflite(tensors, operators, (0,), (4, 3))


def _named(spec: TensorSpec, name: str) -> TensorSpec:
    return TensorSpec(name, spec.shape, spec.dtype, spec.scales, spec.zero_points)


def compiled(x: str, y: str, folder: Path, stream_input: bool = False) -> tuple[bytes, Path]:
    """The model `ports` with these element types, and the folder with its C."""
    raw = network(OUTSIDE[x], OUTSIDE[y])
    model = folder / "ports.tflite"
    model.write_bytes(raw)
    done = api.compile(model, "host", io="model", stream_input=stream_input)
    done.write(folder / "out")
    return raw, folder / "out"


def answers(raw: bytes, x: Array, outputs: int = 1) -> list[Array]:
    """The outputs of TensorFlow Lite Micro."""
    pytest.importorskip("tflite_micro", reason="the extra 'reference' is not installed")
    interpreter = fresh_interpreter(raw, 1 << 20)
    interpreter.set_input(x, 0)
    interpreter.invoke()
    return [interpreter.get_output(k) for k in range(outputs)]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("x", "y"),
    [
        ("int8", "int32"),
        ("int8", "int8"),
        ("uint8", "uint8"),
        ("int16", "int16"),
        ("float32", "float32"),
    ],
)
def test_the_example_prints_the_elements_of_the_answer_to_zeros(
    x: str, y: str, streamed: bool, tmp_path: Path
) -> None:
    raw, folder = compiled(x, y, tmp_path, streamed)
    sources = [folder / source for source in (*c_sources("ports"), "main.c")]
    objects = compile_objects(host_compiler(), sources, tmp_path, include=(folder,), flags=WARNINGS)
    printed = run_executable(link_executable(host_compiler(), objects, tmp_path / "example"))
    zero = OUTSIDE[x].zero_points[0] if OUTSIDE[x].zero_points else 0
    expected = answers(raw, np.full(SHAPE, zero, x), 2)
    assert [array.dtype for array in expected] == [y, "int8"]
    lines = [[f"{element:g}" for element in array.ravel()] for array in expected]
    if y != "float32":
        lines[0] = [str(element) for element in expected[0].ravel()]
    lines[1] = [str(element) for element in expected[1].ravel()]
    assert [line.split() for line in printed.decode().splitlines()] == lines
    assert len(set(lines[0])) > 8


@pytest.mark.parametrize("kind", ["gcc", "clang"])
@pytest.mark.parametrize("type", OUTSIDE)
def test_it_compiles_as_c_and_as_cxx_without_a_warning(
    type: str, kind: Kind, tmp_path: Path
) -> None:
    _, folder = compiled("int8" if type == "int32" else type, type, tmp_path)
    main = [folder / "main.c"]
    compile_objects(compiler_named(kind), main, tmp_path / kind, include=(folder,), flags=WARNINGS)
    flags = ("-std=c++17", *WARNINGS, f"-I{folder}", "-x", "c++", "-fsyntax-only")
    subprocess.run([*cxx_command(), *flags, folder / "main.c"], check=True)


def test_macros_state_each_quantisation(tmp_path: Path) -> None:
    for x, y in (("uint8", "int16"), ("int8", "int32"), ("float32", "float32")):
        for streamed in (False, True):
            folder = tmp_path / f"{x}_{streamed}"
            folder.mkdir()
            header = (compiled(x, y, folder, streamed)[1] / "ports.h").read_text()
            for name, spec in (("PULL" if streamed else "INPUT", x), ("OUTPUT", y)):
                lines = _quantisation(f"PORTS_{name}", OUTSIDE[spec])
                assert all(line in header for line in lines)
                assert lines or f"PORTS_{name}_SCALE" not in header


def _quantisation(name: str, spec: TensorSpec) -> list[str]:
    if not spec.scales:
        return []
    scale, zero = np.float32(spec.scales[0]), spec.zero_points[0]
    return [f"#define {name}_SCALE {scale!s}f\n", f"#define {name}_ZERO_POINT ({zero})\n"]


@pytest.mark.parametrize("cxx", [False, True], ids=["C11", "C++17"])
@pytest.mark.parametrize("type", HELPED)
def test_the_header_s_functions_convert_as_tensorflow_lite_micro(
    type: str, cxx: bool, tmp_path: Path
) -> None:
    """Over ties, numbers near them, and numbers that saturate; as do the methods in Python."""
    spec, limits = OUTSIDE[type], np.iinfo(type)
    width = int(limits.max) - int(limits.min)
    rng = np.random.default_rng(1)
    halves = np.arange(-600, 600) / 2
    ends = np.array([limits.min, limits.max]) - spec.zero_points[0]
    steps = np.concatenate(
        [halves, *(halves + end for end in ends), rng.uniform(-width, width, 4000), [1e7, -1e7]]
    )
    reals = (steps * np.float32(spec.scales[0])).astype(np.float32)
    reals = np.concatenate([reals, np.nextafter(reals, np.float32(0))])
    every = np.arange(limits.min, limits.max + 1).astype(type)
    found = converted(type, reals, every, cxx, tmp_path)
    elements = np.frombuffer(found[: reals.size * every.itemsize], type)
    np.testing.assert_array_equal(elements, quantised(spec, reals))
    backs = np.frombuffer(found[reals.size * every.itemsize :], np.float32)
    expected = answers(one_operator("DEQUANTIZE", spec, every.size), every)[0]
    np.testing.assert_array_equal(backs, expected)
    tensor = interface_tensor(type, spec)
    np.testing.assert_array_equal(tensor.quantize(reals), elements, strict=True)
    np.testing.assert_array_equal(tensor.dequantize(every), backs, strict=True)


def interface_tensor(type: str, spec: TensorSpec) -> InterfaceTensor:
    q = Quantisation(spec.scales, spec.zero_points)
    return InterfaceTensor.of(spec.name, TensorType(SHAPE, DType(type), q))


def converted(type: str, reals: Array, every: Array, cxx: bool, folder: Path) -> bytes:
    """What the header's functions make of real numbers, and of every element."""
    _, made = compiled(type, type, folder)
    program = f"""
        #include <stdio.h>
        #include "ports.h"
        int main(void) {{
            float real;
            while (fread(&real, sizeof real, 1, stdin) == 1) {{
                const {type}_t element = ports_input_quantize(real);
                fwrite(&element, sizeof element, 1, stdout);
            }}
            for (int k = {every[0]}; k <= {every[-1]}; k++) {{
                const float back = ports_output_dequantize(({type}_t)k);
                fwrite(&back, sizeof back, 1, stdout);
            }}
            return 0;
        }}
    """
    return run_c(program, cxx, made, reals.tobytes())


def run_c(program: str, cxx: bool, include: Path, given: bytes) -> bytes:
    source, executable = include.parent / "main.c", include.parent / "main"
    source.write_text(program)
    compiler: Sequence[str] = host_compiler().command
    language = ("-x", "c++", "-std=c++17") if cxx else ("-std=c11",)
    files = (f"-I{include}", str(source), "-o", str(executable))
    subprocess.run([*compiler, *language, *WARNINGS, *files], check=True)
    return subprocess.run([executable], input=given, capture_output=True, check=True).stdout


def one_operator(name: str, spec: TensorSpec, size: int) -> bytes:
    """A network that converts float32 to the type of `spec`, or back."""
    real = TensorSpec("real", (size,), "float32")
    whole = TensorSpec("whole", (size,), spec.dtype, spec.scales, spec.zero_points)
    pair = (real, whole) if name == "QUANTIZE" else (whole, real)
    return write_tflite(pair, [OperatorSpec(name, (0,), (1,))], (0,), (1,))


def quantised(spec: TensorSpec, reals: Array) -> Array:
    """The elements that TensorFlow Lite Micro quantises to.

    It does not quantise to uint8: those elements are the ones of int8, plus 128."""
    if spec.dtype != "uint8":
        return answers(one_operator("QUANTIZE", spec, reals.size), reals)[0]
    shifted = TensorSpec("x", SHAPE, "int8", spec.scales, (spec.zero_points[0] - 128,))
    return (quantised(shifted, reals).astype(np.int16) + 128).astype(np.uint8)


def test_elements_of_32_bits_are_dequantised(tmp_path: Path) -> None:
    _, made = compiled("int8", "int32", tmp_path)
    every = np.array([0, 1, -1, 12345, 2**24 + 1, 2**31 - 1, -(2**31)], np.int32)
    program = """
        #include <stdio.h>
        #include "ports.h"
        int main(void) {
            int32_t element;
            while (fread(&element, sizeof element, 1, stdin) == 1) {
                const float back = ports_output_dequantize(element);
                fwrite(&back, sizeof back, 1, stdout);
            }
            return 0;
        }
    """
    found = np.frombuffer(run_c(program, False, made, every.tobytes()), np.float32)
    type = TensorType(every.shape, DType.INT32, Quantisation(OUTSIDE["int32"].scales, (0,)))
    np.testing.assert_array_equal(found, type.real_numbers(every))
    in_python = InterfaceTensor.of("y", type).dequantize(every)
    np.testing.assert_array_equal(in_python, found, strict=True)
