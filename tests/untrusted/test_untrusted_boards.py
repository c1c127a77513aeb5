"""A target file is data: whatever it contains, nothing that it says is run, read or overwritten."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from command_line import CommandLine
from packages.build_tools import need
from packages.deliveries import model_delivery
from penstock import api
from penstock.codegen.bundle import write_bundle
from penstock.codegen.packages.delivery import Delivery
from penstock.codegen.packages.formats import PACKAGE_FORMATS
from penstock.errors import TargetError
from penstock.hardware.load import MOST_BYTES, parse_target, target_names, target_text
from penstock.toolchains.cortex_m import GCC

MODEL = Path(__file__).parents[1] / "models" / "two_heads.tflite"
TEXT = target_text("cortex-m4")
GCC_FLAGS = 'gcc = ["-mthumb", "-mcpu=cortex-m4", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"]'
ZIG_FLAGS = 'zig = ["-target", "thumb-freestanding-eabihf", "-mcpu=cortex_m4+vfp4d16sp"]'

HOSTILE = (
    "-fplugin=./evil.so", "-fplugin-arg-evil-x", "-wrapper", "sh,-c,touch,pwned", "@flags.txt",
    *("-o", "-opwned", "-specs=evil.specs", "--specs=evil.specs", "-B.", "-no-canonical-prefixes"),
    *("-x", "-xassembler", "-include", "-include/etc/passwd", "-imacros", "-I.", "-isystem", "-L."),
    *("-DNDEBUG", "-Dint8_t=int", "-U__ARM", "-Wl,-T,evil.ld", "-Wa,-a=pwned", "-Wp,-MD,pwned"),
    *("-Xlinker", "-Xclang", "-T", "evil.ld", "evil.c", "/tmp/evil.o", "-lc", "-save-temps"),
    *("-MD", "-MF", "-MFpwned", "-dumpdir", "-fdump-tree-all", "-fstack-usage", "-pipe", "-###"),
    *("-fprofile-generate", "-fprofile-use=evil", "-fsanitize=address", "-flto", "-ffast-math"),
    *("-Ofast", "-O2;touch", "--sysroot=.", "-frandom-seed=x", "-fcompare-debug=-o", "-aux-info"),
    *("$(shell${IFS}touch${IFS}pwned)", "`touch${IFS}pwned`", "$(touch${IFS}pwned)", ";touch"),
    *("-mcpu=$(touch${IFS}pwned)", "-mcpu=`id`", "-mcpu=a;b", "-mcpu=a|b", "-mcpu=a&b", "-mcpu="),
    *('-mcpu="a', "-mcpu='a", "-mcpu=a\\", "-mcpu=a/b", "-mcpu=../x", "-mcpu=a,b", "-mcpu=@x"),
    *("-mcpu=-o", "-march=${X}", "-mthumb\u2028x", "", "-m", "-", "--", "-fno-plugin", "-target"),
)  # fmt: skip


def board(old: str, new: str) -> str:
    """The text of a shipped target with one change."""
    assert old in TEXT
    return TEXT.replace(old, new, 1)


@pytest.mark.parametrize("compiler", ["gcc", "zig"])
@pytest.mark.parametrize("flag", HOSTILE)
def test_a_flag_outside_the_vocabulary_is_refused(compiler: str, flag: str) -> None:
    flags = GCC_FLAGS if compiler == "gcc" else ZIG_FLAGS
    with pytest.raises(TargetError) as caught:
        parse_target(board(flags, f"{flags[:-1]}, {json.dumps(flag)}]"), "board.toml")
    assert caught.value.where == "board.toml, [compiler]"
    assert caught.value.code in ("target-003", "target-005")
    if caught.value.code == "target-005":
        assert "--trust-target" in caught.value.help


@pytest.mark.parametrize(
    "flag",
    ["-mcpu=cortex-m55+nofp", "-march=rv32imac_zicsr", "-mabi=ilp32f", "-O2", "-fno-common", "-g"],
)
def test_flags_that_select_code_are_accepted(flag: str) -> None:
    text = board(GCC_FLAGS, f'{GCC_FLAGS[:-1]}, "{flag}"]')
    assert parse_target(text, "board.toml").compiler.gcc[-1] == flag


def test_a_value_of_target_is_no_flag() -> None:
    with pytest.raises(TargetError, match=r"zig\[1\]"):
        parse_target(board(ZIG_FLAGS, 'zig = ["-target", "@file"]'), "board.toml")


@pytest.mark.parametrize("command", ["compile", "run", "profile", "verify", "show"])
def test_commands_refuse_a_hostile_board_and_run_nothing(
    command: str, tmp_path: Path, penstock: CommandLine
) -> None:
    flags = ', "-wrapper", "touch,pwned"]'
    text = board(GCC_FLAGS, GCC_FLAGS[:-1] + flags).replace(ZIG_FLAGS, ZIG_FLAGS[:-1] + flags)
    (tmp_path / "board.toml").write_text(text)
    said = penstock(command, MODEL, "--target", "board.toml")
    assert (said.code, os.listdir(tmp_path)) == (1, ["board.toml"])
    assert said.err.startswith("error[target-005]: zig[3] is ")


def test_a_trusted_board_may_state_any_flag_and_the_report_repeats_the_option(
    tmp_path: Path,
) -> None:
    path = tmp_path / "board.toml"
    path.write_text(board(GCC_FLAGS, f'{GCC_FLAGS[:-1]}, "-DBOARD=1"]'))
    compiled = api.compile(MODEL, str(path), trust_target=True)
    assert compiled.compilation.request.target.compiler.gcc[-1] == "-DBOARD=1"
    assert "--trust-target" in str(compiled.report.as_json()["command"])


def test_shipped_targets_need_no_trust() -> None:
    assert all(parse_target(target_text(name), name) for name in target_names())


def test_a_file_without_end_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "board.toml"
    path.write_bytes(b"#" * (MOST_BYTES + 1))
    with pytest.raises(TargetError, match="more than 1048576 bytes"):
        api.request(MODEL, str(path))


def test_names_of_a_board_stay_in_comments(tmp_path: Path, penstock: CommandLine) -> None:
    """A name may contain what make, CMake, the shell, C, XML, YAML and JSON take for syntax."""
    name = "$(shell touch pwned) */ ]] ${X} `touch pwned` \"<&' #{{7*7}}\\"
    text = board('name = "cortex-m4"', f"name = '''{name}'''")
    text = text.replace('name = "sram"', "name = '''$(touch pwned)*/'''")
    (tmp_path / "board.toml").write_text(text.replace('name = "cpu"', "name = '''*/\"<'''"))
    said = penstock("compile", MODEL, "--target", "board.toml", "--package", "all", "-o", "out")
    assert said.code == 0
    build(tmp_path / "out" / "make")
    assert not list(tmp_path.rglob("pwned"))
    subprocess.run(
        ["gcc", "-Wall", "-Werror", "-fsyntax-only", "-Iinclude", "src/two_heads.c"],
        cwd=tmp_path / "out" / "make",
        check=True,
    )


@pytest.mark.parametrize(
    "flag", ["-DA=$X", "-DA=`id`", "-DA=a b", "-DA='", '-DA="', "-DA=a;b", "#"]
)
def test_a_trusted_flag_has_no_meaning_in_shells(flag: str) -> None:
    text = board(GCC_FLAGS, f"{GCC_FLAGS[:-1]}, {json.dumps(flag)}]")
    with pytest.raises(TargetError) as caught:
        parse_target(text, "board.toml", trusted=True)
    assert caught.value.code == "target-003"


QUOTED = ("-DA=$(touch${IFS}pwned)", "-DB=`touch${IFS}pwned`", "-DC=';touch${IFS}pwned;'")
QUOTED = (*QUOTED, '-DD="$(shell${IFS}touch${IFS}pwned)', "-DE=\\#\\", "-DF=#;a", "-DG=$<")


@pytest.fixture(scope="module")
def trusted() -> Delivery:
    """A delivery for a trusted board whose flags contain syntax of shells and build systems."""
    delivery = model_delivery("two_heads").delivery
    return replace(delivery, cpu_flags=(*delivery.cpu_flags, *QUOTED))


def build(folder: Path, *words: str) -> str:
    """The output of make in a folder, for the target, with a compiler that prints its words."""
    printer = folder / "printer"
    printer.write_text('#!/bin/sh\nfor word in "$@"; do echo "<$word>"; done\n')
    printer.chmod(0o755)
    settings = ("CROSS_COMPILE=arm-", f"CC={printer}", "AR=true", *words)
    return subprocess.run(
        ["make", *settings], cwd=folder, check=True, capture_output=True, text=True
    ).stdout


def test_make_passes_the_flags_of_a_trusted_board_as_they_are(
    trusted: Delivery, tmp_path: Path
) -> None:
    need("make")
    write_bundle(PACKAGE_FORMATS["make"].pack(trusted), tmp_path / "package")
    said = build(tmp_path / "package").splitlines()
    assert all(f"<{flag}>" in said for flag in trusted.cpu_flags)
    assert not list(tmp_path.rglob("pwned"))


@pytest.mark.skipif(not shutil.which(GCC), reason=f"{GCC} is not installed")
def test_cmake_passes_the_flags_of_a_trusted_board_to_the_shell(
    trusted: Delivery, tmp_path: Path
) -> None:
    need("cmake", "make", GCC)
    # CMake leaves "$" and backslashes to make, which expands them.
    flags = tuple(flag for flag in trusted.cpu_flags if not set(flag) & set("$\\"))
    delivery = replace(trusted, cpu_flags=(*flags, "-DI=`touch<pwned`"))
    write_bundle(PACKAGE_FORMATS["cmake"].pack(delivery), tmp_path / "package")
    tried = ("-DCMAKE_C_COMPILER_WORKS=1", "-DCMAKE_TOOLCHAIN_FILE=toolchain.cmake")
    for words in (
        ("-S", "package", "-B", "build", *tried),
        ("--build", "build", "-t", "two_heads"),
    ):
        subprocess.run(["cmake", *words], cwd=tmp_path, check=True, capture_output=True)
    assert not list(tmp_path.rglob("pwned"))
