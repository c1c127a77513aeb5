"""The host's compiler: shared libraries for Python, and programs that sanitizers watch."""

from __future__ import annotations

import ctypes
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.errors import InternalError, ToolError
from penstock.toolchains import command
from penstock.toolchains.compiler import Compiler, compile_objects
from penstock.toolchains.host import (
    host_compiler,
    link_executable,
    link_shared,
    run_executable,
    sanitised_compiler,
    shared_suffix,
    zig_host_compiler,
)

ECHO = """
#include <stdio.h>
#include <stdlib.h>
int main(int count, char **words) {
    unsigned char line[4] = {0};
    int place = count > 1 ? atoi(words[1]) : 0;
    if (fread(line, 1, 4, stdin) != 4) return 2;
    if (count > 2) place += 2147483647;
    putchar(line[place] + 1);
    return 0;
}
"""


def compiled(folder: Path, compiler: Compiler, text: str) -> tuple[Path, ...]:
    """The object files of one C text."""
    source = folder / "program.c"
    source.write_text(text)
    return compile_objects(compiler, [source], folder)


@pytest.fixture(params=[host_compiler, zig_host_compiler], ids=["host", "zig"])
def compiler(request: pytest.FixtureRequest) -> Compiler:
    """Both routes to a compiler for this machine."""
    if request.param is zig_host_compiler:
        pytest.importorskip("ziglang")
    make: Callable[[], Compiler] = request.param
    return make()


def test_python_loads_what_the_host_compiler_links(tmp_path: Path, compiler: Compiler) -> None:
    objects = compiled(tmp_path, compiler, "int twice(int x); int twice(int x) { return 2 * x; }")
    library = link_shared(compiler, objects, tmp_path / f"twice{shared_suffix()}")
    assert ctypes.CDLL(str(library)).twice(21) == 42


def test_a_program_reads_stdin_and_arguments_and_answers(
    tmp_path: Path, compiler: Compiler
) -> None:
    program = link_executable(compiler, compiled(tmp_path, compiler, ECHO), tmp_path / "echo")
    assert run_executable(program, b"abcd") == b"b"
    assert run_executable(program, b"abcd", ["2"]) == b"d"
    with pytest.raises(ToolError, match="exit code 2"):
        run_executable(program, b"abc")


def test_sanitised_programs_stop_at_the_first_error(tmp_path: Path) -> None:
    if host_compiler().kind == "zig":
        pytest.skip("only zig here, which has no address sanitizer")
    sanitised = sanitised_compiler(host_compiler())
    assert sanitised.sanitizers == ("address", "undefined")
    objects = compiled(tmp_path, sanitised.compiler, ECHO)
    program = link_executable(sanitised.compiler, objects, tmp_path / "echo")
    assert run_executable(program, b"abcd", ["3"]) == b"e"
    with pytest.raises(ToolError) as overflow:
        run_executable(program, b"abcd", ["1", "add"])
    assert "signed integer overflow" in overflow.value.why
    with pytest.raises(ToolError) as outside:
        run_executable(program, b"abcd", ["40"])
    assert "out of bounds" in outside.value.why or "buffer-overflow" in outside.value.why


def test_zig_claims_no_address_sanitizer() -> None:
    pytest.importorskip("ziglang")
    assert sanitised_compiler(zig_host_compiler()).sanitizers == ("undefined",)


def test_a_compiler_without_sanitizers_is_refused() -> None:
    with pytest.raises(ToolError, match="no-such-compiler has no sanitizers"):
        sanitised_compiler(Compiler("cc", ("/nowhere/no-such-compiler",), ()))


def test_a_sanitised_library_is_never_linked(tmp_path: Path) -> None:
    watched = Compiler("gcc", ("gcc",), ("-fsanitize=address",))
    with pytest.raises(InternalError, match="link a program"):
        link_shared(watched, [], tmp_path / "library.so")


def test_zig_stands_in_where_no_compiler_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ziglang")
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    assert host_compiler.__wrapped__().kind == "zig"


def test_a_machine_without_any_compiler_is_told_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    monkeypatch.setitem(sys.modules, "ziglang", None)
    with pytest.raises(ToolError, match="no C compiler") as caught:
        host_compiler.__wrapped__()
    assert "penstock[simulate]" in caught.value.help


def test_a_cache_that_cannot_be_written_is_replaced_by_a_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setattr(command, "user_cache", lambda: blocked)
    folder = command.cache_folder()
    assert folder.is_dir()
    assert blocked not in folder.parents
    folder.rmdir()


def test_the_cache_lies_in_the_users_own_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "user_cache", lambda: tmp_path / "new")
    assert command.cache_folder() == tmp_path / "new" / "penstock"
    assert command.cache_folder().is_dir()
