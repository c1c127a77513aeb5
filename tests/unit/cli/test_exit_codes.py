"""Exit codes: 0 success, 1 model, target or budget, 2 usage, 3 internal error; and messages."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import CommandLine
from penstock import api
from penstock.errors import InternalError, UsageError
from penstock.simulators.goldens import read_goldens

ONNX = Path(__file__).resolve().parents[2] / "models" / "onnx" / "recurrent.onnx"
VERBS = (
    "compile run verify profile scan golden show targets ops options demo".split()  # noqa: SIM905
)


def test_a_compilation_that_is_done_exits_with_0(penstock: CommandLine, model: Path) -> None:
    said = penstock("compile", model, "-o", "out")
    assert (said.code, said.err) == (0, "")
    assert Path("out/two_heads.c").is_file()


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("compile", "missing.tflite"), 1, "error[model-001]"),
        (("compile", "."), 1, "error[model-001]: the model cannot be read: Is a directory"),
        (("compile", "MODEL", "--sram", "1k"), 1, "error[capacity-001]"),
        (("compile", "MODEL", "--flash", "0"), 1, "error[capacity-002]"),
        (("compile", "MODEL", "--target", "missing.toml"), 1, "error[target-001]"),
        (("compile", "MODEL", "--sram", "nan"), 2, "error[usage-001]: 'nan' is not a size"),
        (("compile", "MODEL", "--sram", "-5"), 2, "error[usage-001]: '-5' is not a size"),
        (("compile", "MODEL", "--sram", "9" * 400), 2, "error[usage-001]"),
        (("compile", "MODEL", "--sram", "1.5"), 2, "error[usage-001]: '1.5' is 1.5 bytes"),
        (("compile", "MODEL", "--flash", "0.5kb"), 1, "error[capacity-002]"),
        (("compile", "MODEL", "--flash", "0.0003kb"), 2, "error[usage-001]"),
        (("compile", "MODEL", "--memory", "ram=0.1k"), 2, "error[usage-001]"),
        (("compile", "MODEL", "--stack", "1 parsec"), 2, "error[usage-001]"),
        (("compile", "MODEL", "--memory", "ram"), 2, "error[usage-012]"),
        (("compile", "MODEL", "--memory", "attic=1k"), 2, "error[usage-011]"),
        (("compile", "MODEL", "--rounding", "triple"), 2, "error[usage-013]"),
        (("compile", "MODEL", "--optimize", "taste"), 2, "error[usage-013]"),
        (("compile", "MODEL", "--stop-after", "lunch"), 2, "error[usage-013]"),
        (("compile", "MODEL", "--target", "moon"), 2, "error[usage-002]"),
        (("compile", "MODEL", "--accelerator", "npu"), 2, "error[usage-014]"),
        (("compile", "MODEL", "--workers", "0"), 2, "error[usage-018]"),
        (("explore", "MODEL", "--workers", "-1"), 2, "error[usage-018]"),
        (("verify", "MODEL", "--workers", "0"), 2, "error[usage-018]"),
        (("show", "MODEL", "--workers", "0"), 2, "error[usage-018]"),
        (("compile", "MODEL", "--workers", "two"), 2, "error[usage-020]"),
        (("compile", "MODEL", "--workers", "9" * 30), 2, "error[usage-018]"),
        (("compile", "MODEL", "--memory", "a=1k", "--memory", "a=2k"), 2, "error[usage-059]"),
        (("compile", "MODEL", "--dimension", "n=1", "--dimension", "n=2"), 2, "error[usage-059]"),
        (("compile", "MODEL", "--dimension", "bacth=1"), 2, "error[usage-114]"),
        (("show", "zoo:lenet5", "--dimension", "batch=1"), 2, "error[usage-114]"),
        (("show", "zoo:lenet5", "--channels-last", "image"), 2, "error[usage-164]"),
        (("compile", "MODEL", "--state", "a=b", "--state", "a=c"), 2, "error[usage-059]"),
        (("golden", "MODEL", "--state", "a", "-o", "x.npz"), 2, "error[usage-115]"),
        (("show", "MODEL", "--state", "a=b"), 2, "error[usage-116]"),
        (("compile", "MODEL", "--bogus"), 2, "error[usage-020]: no such option: --bogus"),
        (("compile", "MODEL", "--order-states", "many"), 2, "error[usage-020]"),
        (("compile", "MODEL", "--order-states", "-5"), 2, "error[usage-016]"),
        (("compile", "MODEL", "--placement-work", "nan"), 2, "error[usage-016]"),
        (("compile", "MODEL", "--placement-work", "inf"), 2, "error[usage-016]"),
        (("compile",), 2, "error[usage-020]: missing argument 'MODEL'"),
        (("frobnicate",), 2, "error[usage-020]: no such command 'frobnicate'"),
        (("golden", "zoo:lenet5", "-o", "x.npz"), 2, "error[usage-010]"),
        (("show", "zoo:nonsense"), 2, "error[usage-111]"),
        (("targets", "--show", "moon"), 2, "error[usage-002]"),
        (("demo", "--target", "moon"), 2, "error[usage-002]"),
        (("run", "MODEL", "--compiler", "msvc"), 2, "error[usage-013]"),
        (("run", "MODEL", "--input", "a.npy"), 1, "error[input-001]"),
        (("run", "MODEL", "--input", "a.npy", "--input", "b.npy"), 1, "error[input-002]"),
        (("verify", "MODEL", "--goldens", "missing.npz"), 1, "error[golden-002]"),
        (("verify", "MODEL", "--reference", "oracle"), 2, "error[usage-013]"),
    ],
)
def test_errors_have_four_parts_on_stderr_only(
    penstock: CommandLine, model: Path, words: tuple[str, ...], code: int, text: str
) -> None:
    given = [str(model) if word == "MODEL" else word for word in words]
    plain = penstock(*given)
    assert plain.code == code
    assert plain.out == ""
    assert plain.err.startswith(text)
    assert "\n  --> " in plain.err
    assert "Traceback" not in plain.err
    as_json = penstock(*given, "--json")
    assert as_json.code == code
    assert set(as_json.json) == {"error"}
    assert set(as_json.json["error"]) == {"code", "what", "where", "why", "help"}
    assert as_json.json["error"]["where"]
    assert list(Path().iterdir()) == []


def test_an_internal_error_exits_with_3_and_prints_no_traceback(
    penstock: CommandLine, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("lost")

    monkeypatch.setattr(api, "compile", broken)
    said = penstock("compile", model)
    assert said.code == 3
    assert said.err.startswith("error[internal-001]: KeyError: 'lost'\n  --> test_exit_codes.py:")
    assert "Traceback" not in said.err


def test_a_broken_invariant_exits_with_3(
    penstock: CommandLine, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise InternalError("place-001", "the placement is wrong")

    monkeypatch.setattr(api, "compile", broken)
    assert penstock("compile", model).code == 3


def test_an_interruption_exits_with_130(
    penstock: CommandLine, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "compile", interrupted)
    said = penstock("compile", model)
    assert (said.code, said.out) == (130, "")


def test_an_interruption_of_compiled_code_exits_with_130(
    penstock: CommandLine, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numba raises a SystemError from what a signal handler raised."""

    def interrupted(*_: object, **__: object) -> None:
        raise SystemError("returned a result with an exception set") from KeyboardInterrupt()

    monkeypatch.setattr(api, "compile", interrupted)
    said = penstock("compile", model)
    assert (said.code, said.out, said.err) == (130, "", "interrupted\n")


def test_no_arguments_print_the_help(penstock: CommandLine) -> None:
    said = penstock()
    assert said.code == 2
    assert "Usage: penstock" in said.err + said.out


@pytest.mark.parametrize("verb", VERBS)
def test_help_explains_every_option_and_exits_with_0(penstock: CommandLine, verb: str) -> None:
    said = penstock(verb, "--help")
    assert said.code == 0
    options = [line.split() for line in said.out.splitlines() if line.startswith("  -")]
    assert options, said.out
    text = said.out.partition("ptions:")[2]
    for entry in text.split("\n  -")[1:]:
        words = entry.split()
        sentence = [w for w in words[1:] if not w.startswith("-") and not w.isupper()]
        assert len(sentence) >= 2, f"{verb} -{entry}"


@pytest.mark.parametrize(
    "words",
    [
        ("targets",),
        ("targets", "--show", "host"),
        ("ops",),
        ("options",),
        ("show", "zoo:"),
        ("show", "MODEL"),
        ("show", "MODEL", "--stop-after", "lower"),
        ("compile", "MODEL", "--stop-after", "place"),
        ("compile", "MODEL"),
    ],
)
def test_json_is_one_object_and_nothing_else(
    penstock: CommandLine, model: Path, words: tuple[str, ...]
) -> None:
    said = penstock(*(model if word == "MODEL" else word for word in words), "--json")
    assert (said.code, said.err) == (0, "")
    assert isinstance(said.json, dict)


@pytest.mark.parametrize(
    "attribute",
    [
        "vanilla:macs_per_cycle=0",
        "vanilla:macs_per_cycle=-1",
        "ultra_trail:dimension=-3",
        "smv:input_bytes=0",
        "dot4:sum_bytes=-4",
    ],
)
def test_numbers_that_describe_no_accelerator_are_refused(
    penstock: CommandLine, model: Path, attribute: str
) -> None:
    said = penstock("compile", model, "--accelerator", attribute)
    assert said.code == 2
    assert said.err.startswith("error[usage-019]: ")


@pytest.mark.parametrize("size", [-1, -0.5, float("nan"), float("inf"), None, "", []])
@pytest.mark.parametrize("name", ["stack", "memory"])
def test_sizes_of_calls_are_checked_as_those_of_the_command_line(
    model: Path, name: str, size: Any
) -> None:
    settings: Any = {name: {"ram": size} if name == "memory" else size}
    with pytest.raises(UsageError, match="is not a size"):
        api.request(model, "two-region", **settings)


def test_a_rounding_that_there_is_not_is_refused(model: Path) -> None:
    settings: Any = {"rounding": "triple"}
    with pytest.raises(UsageError, match="use one of double, single"):
        api.request(model, **settings)


@pytest.mark.parametrize(
    "words", [("golden", "-o", "x.npz"), ("verify", "--reference", "tflite", "-t", "host")]
)
def test_tensorflow_lite_micro_is_given_no_onnx_model(
    penstock: CommandLine, words: tuple[str, ...]
) -> None:
    said = penstock(*words, ONNX)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("error[usage-010]: TensorFlow Lite Micro runs .tflite files only")
    assert "with --reference onnx" in said.err


def test_goldens_of_a_packed_model_are_those_of_the_model(
    penstock: CommandLine, model: Path
) -> None:
    pytest.importorskip("tflite_micro", reason="the extra 'reference' is not installed")
    packed = Path("packed.tflite.gz")
    packed.write_bytes(gzip.compress(model.read_bytes()))
    assert penstock("golden", packed, "-o", "packed.npz").code == 0
    assert penstock("golden", model, "-o", "plain.npz").code == 0
    packed_goldens, plain = (read_goldens(Path(name)) for name in ("packed.npz", "plain.npz"))
    assert packed_goldens.tensor_crc32 == plain.tensor_crc32


def test_goldens_recorded_with_states_name_the_option(penstock: CommandLine) -> None:
    archive = ONNX.with_suffix(".npz")
    said = penstock("verify", ONNX, "--goldens", archive, "-t", "host")
    assert said.code == 1
    assert said.err.splitlines()[:2] == [
        "error[golden-010]: the inputs of set 0 are float32[6,1,5], must be "
        'int8[6,1,5] ("x"), int8[1,1,6] ("first/h_in"), float32[1,1,7] ("second/h_in"), '
        'float32[1,1,7] ("second/c_in")',
        f"  --> {archive}, recurrent.onnx",
    ]
    assert "help: pass --state INPUT=OUTPUT for each state" in said.err


def test_goldens_with_outputs_of_another_shape_are_refused(penstock: CommandLine) -> None:
    model = ONNX.parents[1] / "svdf.tflite"
    sequences = {"in0_set0": np.zeros((2, 1, 16), np.int8), "out0_set0": np.zeros((2, 9), np.int8)}
    np.savez("odd.npz", allow_pickle=False, **sequences, meta=np.array('{"stateful": true}'))
    said = penstock("verify", model, "--goldens", "odd.npz", "-t", "host")
    assert said.code == 1
    assert said.err.startswith('error[golden-010]: output "x13" is int8[9], must be int8[1,24]')
