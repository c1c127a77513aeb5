"""Results of earlier runs: what their keys contain, and what becomes of damaged ones."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

import penstock
from command_line import CommandLine
from penstock import api
from penstock.api import cache, compiling
from penstock.backends.uma import backend
from penstock.codegen.bundle import Bundle
from penstock.errors import UsageError

MODEL = Path(__file__).parents[1] / "models" / "two_heads.tflite"
TARGET = Path(cache.__file__).parents[1] / "hardware" / "boards" / "rp2040.toml"
FILES = Bundle((("report.json", b"{}"), ("src/a.c", bytes(range(256)))))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the cache, which does not exist yet; the current folder has a model, and no
    accelerator is registered in this process, whose requests would have no key."""
    monkeypatch.setattr(backend, "REGISTERED", {})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "kept"))
    shutil.copy(MODEL, "net.tflite")
    return tmp_path / "kept"


@pytest.fixture
def command(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    return CommandLine(monkeypatch, capsys)


def refuse(*inputs: object) -> None:
    raise AssertionError("it is computed")


def written(folder: str) -> dict[str, bytes]:
    paths = (path for path in Path(folder).rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.mark.parametrize("more", [(), ("--package", "zephyr,rust"), ("--sram", "8KiB")], ids=str)
def test_a_second_run_computes_nothing_and_writes_the_same(
    command: CommandLine, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    first = command("compile", "net.tflite", *more, "-o", "one", "--json")
    monkeypatch.setattr(compiling, "compiled", refuse)
    second = command("compile", "net.tflite", *more, "-o", "two", "--json")
    assert second.code == 0, second.err
    assert written("one") == written("two")
    assert first.json["seconds"]
    assert second.json == {**first.json, "seconds": {}}


def test_verbose_output_says_where_a_result_comes_from(command: CommandLine) -> None:
    words = ("compile", "net.tflite", "--force", "-o", "net")
    first = command(*words, "--verbose")
    second = command(*words, "--verbose")
    plain = command(*words)
    assert "earlier run" not in first.out
    assert second.out.splitlines()[0] == first.out.splitlines()[0]
    assert "from an earlier run with equal inputs (--no-cache repeats it)" in second.out
    assert "earlier run" not in plain.out


def test_without_cache_nothing_is_reused_or_kept(folder: Path, command: CommandLine) -> None:
    words = ("compile", "net.tflite", "-o", "net", "--force")
    assert command(*words, "--no-cache", "--json").json["seconds"]
    assert not folder.exists()
    command(*words)
    assert command(*words, "--no-cache", "--json").json["seconds"]


def key(model: object = "net.tflite", target: str = "cortex-m4", **settings: object) -> str:
    found = cache.key_of(model, target, settings)
    assert found is not None
    assert found == cache.key_of(model, target, settings)
    return found.digest


def change(path: str) -> None:
    content = bytearray(Path(path).read_bytes())
    content[-1] ^= 1
    Path(path).write_bytes(content)


def test_a_key_depends_on_every_word_of_a_request(folder: Path) -> None:
    shutil.copy("net.tflite", "other.tflite")
    keys = (
        *(key(), key("other.tflite"), key(target="cortex-m7"), key(sram="8KiB"), key(sram="9KiB")),
        *(key(options=penstock.Options(max_parts=2)), key(memory={"ram": 4096}), key(name="x")),
        *(key(accelerators="vanilla"), key(accelerators=("vanilla", "smv"))),
    )
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("file", "made"),
    [
        ("net.tflite", key),
        ("board.toml", lambda: key(target="board.toml")),
        ("samples.npz", lambda: key(quantise=Path("samples.npz"))),
        ("axes.npy", lambda: key(constants=("axes=axes.npy",))),
        ("array.toml", lambda: key(accelerators=("pe_array:x=1,file=array.toml",))),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_key_depends_on_the_content_of_files(
    folder: Path, file: str, made: Callable[[], str]
) -> None:
    if not Path(file).exists():
        shutil.copy(TARGET, file)
    before = made()
    change(file)
    assert made() != before


def test_a_key_depends_on_the_external_data_of_a_model(folder: Path) -> None:
    tensor = onnx.TensorProto(name="w", data_type=1, dims=[2], data_location="EXTERNAL")
    for name, value in (("location", "w.bin"), ("offset", "0"), ("length", "8")):
        tensor.external_data.add(key=name, value=value)
    graph = onnx.GraphProto(name="g", initializer=[tensor])
    Path("net.onnx").write_bytes(onnx.ModelProto(graph=graph).SerializeToString())
    absent = key("net.onnx")
    Path("w.bin").write_bytes(bytes(8))
    before = key("net.onnx")
    change("w.bin")
    assert len({absent, before, key("net.onnx")}) == 3


@pytest.mark.parametrize("location", ["../w.bin", "/w.bin", ""])
def test_data_outside_the_folder_prevent_a_key(folder: Path, location: str) -> None:
    tensor = onnx.TensorProto(name="w", data_type=1, dims=[2], data_location="EXTERNAL")
    tensor.external_data.add(key="location", value=location)
    graph = onnx.GraphProto(name="g", initializer=[tensor])
    Path("net.onnx").write_bytes(onnx.ModelProto(graph=graph).SerializeToString())
    assert cache.key_of("net.onnx", "cortex-m4", {}) is None


def test_data_in_an_attribute_of_a_subgraph_are_part_of_a_key(folder: Path) -> None:
    tensor = onnx.TensorProto(name="w", data_type=1, dims=[2], data_location="EXTERNAL")
    tensor.external_data.add(key="location", value="w" * 200)  # a length of two bytes
    inner = onnx.helper.make_node("Constant", [], ["c"], value=tensor)
    branch = onnx.GraphProto(name="b", node=[inner])
    outer = onnx.helper.make_node("If", ["x"], ["y"], then_branch=branch, else_branch=branch)
    graph = onnx.GraphProto(name="g", node=[outer])
    Path("net.onnx").write_bytes(onnx.ModelProto(graph=graph).SerializeToString())
    absent = key("net.onnx")
    Path("w" * 200).write_bytes(bytes(8))
    assert key("net.onnx") != absent


def test_a_tensor_named_location_refers_to_no_file(folder: Path) -> None:
    tensor = onnx.TensorProto(name="location", data_type=1, dims=[2])
    graph = onnx.GraphProto(name="g", initializer=[tensor])
    Path("net.onnx").write_bytes(onnx.ModelProto(graph=graph).SerializeToString())
    assert cache.key_of("net.onnx", "cortex-m4", {}) is not None
    Path("net.onnx").write_bytes(b"location, but no model")
    assert cache.key_of("net.onnx", "cortex-m4", {}) is None


def test_a_key_depends_on_the_sources(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = folder.parent / "penstock"
    (package / "api").mkdir(parents=True)
    source = package / "ops.py"
    source.write_text("a = 1")
    os.utime(source, (0, 0))
    monkeypatch.setattr(cache, "__file__", str(package / "api" / "cache.py"))
    before = key()
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "ops.pyc").touch()
    assert key() == before
    source.write_text("a = 2")
    assert cache.key_of("net.tflite", "cortex-m4", {}) is None  # this process may run the old one
    os.utime(source, (0, 0))
    assert key() != before


def test_what_is_made_in_python_has_no_key(folder: Path) -> None:
    for model, settings in (
        (penstock.read("net.tflite"), {}),
        (api.request("net.tflite"), {}),
        ("net.tflite", {"schedule": object()}),
        ("net.tflite", {"evaluate": "samples.npz"}),
    ):
        assert cache.key_of(model, "cortex-m4", settings) is None


def test_a_model_that_changes_meanwhile_is_not_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute = compiling.compiled

    def changing(*inputs: object) -> object:
        result = compute(*inputs)  # pyright: ignore[reportArgumentType]
        change("net.tflite")
        return result

    monkeypatch.setattr(compiling, "compiled", changing)
    penstock.compile("net.tflite")
    assert not folder.exists() or not any(folder.iterdir())


def test_a_result_of_an_earlier_run_computes_what_is_not_kept(folder: Path) -> None:
    first = penstock.compile("net.tflite")
    second = penstock.compile("net.tflite")
    assert second == first
    assert second.seconds == ()
    assert second.compilation.bundle == first.compilation.bundle
    assert (
        second.bundle("all") == first.bundle("all") == penstock.compile("net.tflite").bundle("all")
    )
    third = penstock.compile("net.tflite")
    change("net.tflite")
    with pytest.raises(UsageError, match="changed since"):
        print(third.compilation)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0\xff\n\n",
        *(
            hashlib.sha256(text).hexdigest().encode() + b"\n" + text
            for text in (b"7", b"[[1]]", b'[["report.json", "e30="]]', b'[["../x", ""]]', b"[\xff")
        ),
    ],
    ids=str,
)
def test_a_damaged_result_is_computed_again(
    folder: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    first = penstock.compile("net.tflite")
    (entry,) = folder.iterdir()
    kept = entry.read_bytes()
    entry.write_bytes(content)
    with caplog.at_level(logging.INFO, "penstock.cache"):
        assert penstock.compile("net.tflite") == first
    assert "damaged" in caplog.text
    assert entry.read_bytes() == kept


def test_files_are_kept_exactly_and_others_are_not_found(folder: Path) -> None:
    one, other = (cache.key_of("net.tflite", target, {}) for target in ("cortex-m4", "cortex-m7"))
    assert cache.find(one) is None
    cache.keep(one, FILES)
    assert cache.find(one) == FILES
    assert cache.find(other) is None
    assert cache.find(None) is None
    assert [path.stat().st_mode & 0o77 for path in (folder, *folder.iterdir())] == [0, 0]


def test_the_results_that_are_not_used_for_longest_are_removed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [cache.key_of("net.tflite", f"target-{k}", {}) for k in range(4)]
    cache.keep(keys[0], FILES)
    (size,) = (path.stat().st_size for path in folder.iterdir())
    monkeypatch.setattr(cache, "MOST_BYTES", 3 * size)
    for age, each in zip((4, 3, 2), keys[:3], strict=True):
        cache.keep(each, FILES)
        os.utime(folder / f"{each.digest}.json", (age, age))  # pyright: ignore
    assert cache.find(keys[2]) == FILES  # that is a use
    cache.keep(keys[3], FILES)
    assert [cache.find(each) is not None for each in keys] == [True, False, True, True]


def test_a_folder_that_others_can_write_is_not_used(folder: Path) -> None:
    wanted = cache.key_of("net.tflite", "cortex-m4", {})
    cache.keep(wanted, FILES)
    folder.chmod(0o777)
    assert cache.find(wanted) is None
    folder.chmod(0o700)
    assert cache.find(wanted) == FILES


def test_without_a_folder_everything_is_computed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write_text("a file")
    assert penstock.compile("net.tflite") == penstock.compile("net.tflite", cache=False)
    monkeypatch.setenv(cache.VARIABLE, "")
    penstock.compile("net.tflite")
    assert folder.read_text() == "a file"


def test_an_entry_is_json_beneath_its_digest(folder: Path) -> None:
    penstock.compile("net.tflite").bundle()
    for entry in folder.iterdir():
        digest, _, content = entry.read_bytes().partition(b"\n")
        assert digest.decode() == hashlib.sha256(content).hexdigest()
        assert {name for name, _ in json.loads(content)} >= {"report.json"}
