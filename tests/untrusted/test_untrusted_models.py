"""Models and archives of strangers: bounded memory, and no file outside the model's folder."""

from __future__ import annotations

import gzip
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from command_line import CommandLine
from minimal_tflite import ints, model_bytes, table
from penstock import api
from penstock.errors import ModelError
from penstock.frontends.open import parse, read_bytes
from penstock.frontends.reading import Reading
from penstock.ir.array_archive import ArchiveError, read_arrays
from penstock.limits import SizeLimitError
from tools.onnx_writer import Model

MODELS = Path(__file__).parents[1] / "models"
GOOD = MODELS / "two_heads.tflite"
MIB = 2**20
SMALL = Reading(size_limit_bytes=4 * MIB)


def unary(count: int, elements: int) -> bytes:
    """A model that applies functions to a constant that it computes."""
    model = Model()
    x = model.node("ConstantOfShape", model.constant(np.array([elements])), scale=None)
    for number in range(count):
        x = model.node(("Exp", "Tanh")[number % 2], x, scale=None)
    return model.raw(model.node("Relu", model.input(1, 4)), x)


def many_constants(count: int, elements: int) -> bytes:
    """A model that computes many constants."""
    model = Model()
    shape = model.constant(np.array([elements]))
    names = [model.node("ConstantOfShape", shape, scale=None) for _ in range(count)]
    return model.raw(model.node("Relu", model.input(1, 4)), *names)


def shared_buffer(tensors: int, size_bytes: int) -> bytes:
    """A TFLite model whose tensors all have the same buffer."""
    one = table("Tensor", Shape=ints(size_bytes), Type=9, Buffer=1)
    graph = table("SubGraph", Tensors=[one] * tensors, Inputs=ints(), Outputs=ints())
    buffers = [table("Buffer"), table("Buffer", Data=bytes(size_bytes))]
    return model_bytes(table("Model", Version=3, Subgraphs=[graph], Buffers=buffers))


def many_operators(count: int, inputs: int) -> bytes:
    """A TFLite model with many operators that read many tensors."""
    tensor = table("Tensor", Shape=ints(1), Type=9)
    operator = table("Operator", Inputs=ints(*[0] * inputs), Outputs=ints(0))
    graph = table("SubGraph", Tensors=[tensor], Operators=[operator] * count, Inputs=ints())
    codes = [table("OperatorCode", BuiltinCode=0)]
    model = table(
        "Model", Version=3, Subgraphs=[graph], OperatorCodes=codes, Buffers=[table("Buffer")]
    )
    return model_bytes(model)


def empty_nodes(count: int) -> bytes:
    """An ONNX model with many nodes, each of which takes two bytes in the file."""
    raw = Model()
    begin = raw.raw(raw.node("Relu", raw.input(1, 4)))
    nodes = b"\x0a\x00" * count
    length, varint = len(nodes), b""
    while length > 127:
        varint, length = varint + bytes([length & 127 | 128]), length >> 7
    return begin + b"\x3a" + varint + bytes([length]) + nodes  # another part of field 7, graph


HUNGRY = {
    "functions of a constant": unary(60, MIB // 8),
    "many constants": many_constants(60, MIB // 8),
    "one large constant": many_constants(1, 2**25),
    "a shared buffer": shared_buffer(200, MIB // 8),
    "operators": many_operators(600, 1),
    "operands": many_operators(10, 10_000),
    "empty nodes": empty_nodes(2000),
    "gzip": gzip.compress(bytes(5 * MIB)),
}


@pytest.mark.parametrize("name", HUNGRY)
def test_a_file_that_asks_for_more_memory_than_the_limit_is_refused(name: str) -> None:
    with pytest.raises(SizeLimitError) as caught:
        parse(HUNGRY[name], "model", SMALL)
    assert "more than 4 MiB" in caught.value.what
    assert caught.value.where.startswith("model")
    assert "--size-limit" in caught.value.help


def test_the_default_limit_is_less_than_a_machine_has() -> None:
    with pytest.raises(SizeLimitError, match="512 MiB"):
        parse(many_constants(60, 2**26), "model")


def test_an_option_lifts_the_limit(penstock: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "m.tflite").write_bytes(GOOD.read_bytes())
    said = penstock("compile", "m.tflite", "--size-limit", "1KiB")
    assert said.err.startswith("error[limit-002]: reading takes more than 1 KiB of memory\n")
    assert penstock("show", "m.tflite", "--size-limit", "2GiB").code == 0
    with pytest.raises(SizeLimitError):
        api.compile(GOOD, size_limit=1000)


def test_a_file_larger_than_the_limit_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "sparse.tflite"
    path.touch()
    os.truncate(path, 2**40)
    with pytest.raises(SizeLimitError, match="512 MiB"):
        read_bytes(path)


@pytest.mark.parametrize("command", ["compile", "show", "verify"])
def test_a_pipe_or_device_is_no_model(penstock: CommandLine, tmp_path: Path, command: str) -> None:
    os.mkfifo(tmp_path / "pipe.tflite")
    (tmp_path / "zero.tflite").symlink_to("/dev/zero")
    for name in ("pipe.tflite", "zero.tflite"):
        assert "it is a device or a pipe" in penstock(command, name).err


# Archives


def archive(path: Path, method: int, *members: tuple[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", method) as file:
        for name, content in members:
            file.writestr(name, content)
    return path


def header(shape: str, descr: str = "|i1") -> bytes:
    """The beginning of a .npy file."""
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}}}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


def test_an_archive_is_not_unpacked_beyond_the_limit(tmp_path: Path) -> None:
    zeros = header(f"({3 * MIB},)") + bytes(3 * MIB)
    path = archive(tmp_path / "a.npz", zipfile.ZIP_DEFLATED, ("a.npy", zeros), ("b.npy", zeros))
    assert path.stat().st_size < MIB
    with pytest.raises(SizeLimitError):
        read_arrays(path, 4 * MIB)
    assert len(read_arrays(path)) == 2


@pytest.mark.parametrize(
    ("content", "method"),
    [
        (header("(1000000000000,)"), zipfile.ZIP_STORED),
        (header("(4,)") + bytes(3), zipfile.ZIP_STORED),
        (header("()", "|O") + b"cos\nsystem\n(S'touch pwned'\ntR.", zipfile.ZIP_STORED),
        (header("(4,)") + bytes(4), zipfile.ZIP_LZMA),
        (header("(4,)") + bytes(4), zipfile.ZIP_BZIP2),
        (b"cos\nsystem\n(S'touch pwned'\ntR.", zipfile.ZIP_STORED),
    ],
)
def test_an_odd_archive_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, method: int
) -> None:
    monkeypatch.chdir(tmp_path)
    path = archive(tmp_path / "a.npz", method, ("a.npy", content))
    with pytest.raises(ArchiveError):
        read_arrays(path)
    assert os.listdir(tmp_path) == ["a.npz"]


def test_goldens_and_samples_have_the_limit_too(penstock: CommandLine, tmp_path: Path) -> None:
    archive(tmp_path / "bomb.npz", zipfile.ZIP_DEFLATED, ("a.npy", bytes(5 * MIB)))
    said = penstock("verify", GOOD, "--goldens", "bomb.npz", "--size-limit", "4MiB")
    assert said.err.startswith("error[limit-002]: reading takes more than 4 MiB")
    model = Model(quantised=False)
    raw = model.raw(model.node("Conv", model.input(1, 2, 4, 4), model.weights(3, 2, 2, 2)))
    (tmp_path / "m.onnx").write_bytes(raw)
    said = penstock("compile", "m.onnx", "--quantise", "bomb.npz", "--size-limit", "4MiB")
    assert said.err.startswith("error[limit-002]: reading takes more than 4 MiB")


# External data


def external(**entries: object) -> bytes:
    """A convolution whose 12 bytes of weights are stored in a file."""
    model = Model()
    weights = helper.make_tensor("w", TensorProto.INT8, (3, 2, 2, 1), bytes(12), raw=True)
    weights.ClearField("raw_data")
    weights.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        weights.external_data.add(key=key, value=str(value))
    model.constants.append(weights)
    real = model.node("DequantizeLinear", "w", model.constant(np.float32(0.1)), scale=None)
    return model.raw(model.node("Conv", model.input(1, 2, 4, 4), real))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file of data; beside it, a file that is none of the model's business."""
    (tmp_path / "secret").write_bytes(bytes(range(12)))
    inside = tmp_path / "model"
    (inside / "sub").mkdir(parents=True)
    (inside / "data").write_bytes(bytes(12))
    (inside / "out").symlink_to("../secret")
    (inside / "up").symlink_to("..")
    (inside / "twice").symlink_to("sub/chain")
    (inside / "sub" / "chain").symlink_to("../out")
    (inside / "inner").symlink_to("sub/../data")
    os.mkfifo(inside / "pipe")
    return inside


@pytest.mark.parametrize("location", ["data", "inner", "./data", "sub/../data"])
def test_external_data_is_read_inside_the_folder(folder: Path, location: str) -> None:
    raw = external(location=location, offset=0, length=12)
    if ".." in location:  # refused even where it would stay inside
        with pytest.raises(ModelError, match="is missing"):
            parse(raw, "m.onnx", folder=folder)
    else:
        assert parse(raw, "m.onnx", folder=folder) == parse(
            external(location=location), "m.onnx", folder=folder
        )


@pytest.mark.parametrize(
    "location",
    [
        *("../secret", "out", "up/secret", "twice", "sub/chain", "./../secret", "sub/../../secret"),
        *("/etc/passwd", "//etc/passwd", "..\\secret", "sub\\..\\..\\secret", "C:\\secret"),
        *("c:secret", "C:/secret", "\\\\server\\share\\secret", "\\secret", "//server/share"),
        *("", ".", "sub", "pipe", "data\0", "/dev/zero", "/proc/self/environ", "up", "nowhere"),
    ],
)
def test_external_data_outside_the_folder_is_refused(folder: Path, location: str) -> None:
    with pytest.raises(ModelError) as caught:
        parse(external(location=location), "m.onnx", folder=folder)
    assert caught.value.code == "onnx-003"


@pytest.mark.parametrize(
    "entries",
    [
        {"length": 2**40}, {"length": -1}, {"length": 11}, {"offset": -1}, {"offset": 1},
        {"offset": 2**63}, {"length": "x"}, {"offset": "1e3"},
    ],
)  # fmt: skip
def test_external_data_has_the_length_of_the_constant(
    folder: Path, entries: dict[str, object]
) -> None:
    with pytest.raises(ModelError) as caught:
        parse(external(location="data", **entries), "m.onnx", folder=folder)
    assert caught.value.code == "onnx-003"


def test_external_data_without_length_is_not_read_to_the_end(folder: Path) -> None:
    os.truncate(folder / "data", 2**40)
    assert parse(external(location="data"), "m.onnx", folder=folder)


def test_constants_that_share_external_data_count_each(folder: Path) -> None:
    os.truncate(folder / "data", MIB)
    proto: Any = onnx.load_from_string(external(location="data"))
    for number in range(5):
        more = proto.graph.initializer.add()
        more.CopyFrom(next(one for one in proto.graph.initializer if one.external_data))
        more.name, more.dims[:] = f"w{number}", [MIB]
    with pytest.raises(SizeLimitError):
        parse(proto.SerializeToString(), "m.onnx", SMALL, folder)


def test_quantisation_does_not_load_other_files(folder: Path, tmp_path: Path) -> None:
    """onnxruntime receives a model whose constants are loaded."""
    model = Model(quantised=False)
    raw = model.raw(model.node("Conv", model.input(1, 2, 4, 4), model.weights(3, 2, 2, 2)))
    proto: Any = onnx.load_from_string(raw)
    weights = proto.graph.initializer[0]
    weights.ClearField("raw_data")
    weights.data_location = TensorProto.EXTERNAL
    weights.external_data.add(key="location", value="../secret")
    np.savez(tmp_path / "samples.npz", x=np.zeros((2, 2, 4, 4), np.float32))
    reading = Reading(calibration=tmp_path / "samples.npz")
    with pytest.raises(ModelError, match="is missing"):
        parse(proto.SerializeToString(), "m.onnx", reading, folder)


# Scan


def hostile_folder(folder: Path) -> Sequence[str]:
    """Fills a folder with files that ask for too much; returns their names in the order of scan."""
    files = {
        "a_fold.onnx": many_constants(60, MIB),
        "b_bomb.tflite.gz": gzip.compress(bytes(5 * MIB)),
        "c_nodes.onnx.gz": gzip.compress(empty_nodes(2000)),
        "z_good.tflite": GOOD.read_bytes(),
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    (folder / "d_zero.onnx").symlink_to("/dev/zero")
    (folder / "e_outside.tflite").symlink_to(MODELS / "elu.tflite")
    os.mkfifo(folder / "f_pipe.onnx")
    (folder / "g_sparse.tflite").touch()
    os.truncate(folder / "g_sparse.tflite", 2**40)
    (folder / "h_\x1b[2J.tflite").write_bytes(b"junk")
    return sorted((*files, "d_zero.onnx", "e_outside.tflite", "f_pipe.onnx", "g_sparse.tflite"))


def test_a_scan_goes_on_after_files_that_ask_for_too_much(
    penstock: CommandLine, tmp_path: Path
) -> None:
    names = hostile_folder(tmp_path)
    said = penstock("scan", tmp_path, "--json", "--size-limit", "4MiB", "--stop-after", "read")
    assert said.code == 4
    found = {one["model"]: one for one in said.json["models"]}
    verdicts = {name: found[name]["verdict"] for name in names}
    assert verdicts == dict.fromkeys(names, "does not compile") | {"z_good.tflite": "passes"}
    codes = {name[0]: found[name]["causes"][0]["code"] for name in names[:-1]}
    assert codes == {
        **dict.fromkeys("abcg", "limit-002"),
        **dict.fromkeys("de", "model-032"),
        "f": "model-001",
    }


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="only Linux limits memory")
def test_a_memory_limit_stops_a_model_and_no_other(penstock: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "hungry.onnx").write_bytes(many_constants(6, 2**26))
    (tmp_path / "z.tflite").write_bytes(GOOD.read_bytes())
    said = penstock(
        *("scan", tmp_path, "--json", "--memory-limit", "1GiB", "--size-limit", "16GiB"),
        *("--stop-after", "read"),
    )
    hungry, good = said.json["models"]
    assert good["causes"] == []
    assert (hungry["causes"][0]["code"], good["verdict"]) == ("limit-003", "passes")
