"""The command-line application: registers commands, maps errors to messages and exit codes."""

from __future__ import annotations

import errno
import json
import os
import sys
from contextlib import suppress
from io import TextIOWrapper
from itertools import chain
from typing import Annotated, Any, NoReturn

import typer

from penstock.cli import build, check, execute, lists, scan, show
from penstock.cli.help import TERMS, SectionedCommand
from penstock.cli.parameters import with_options
from penstock.cli.terminal import print_error
from penstock.errors import (
    OutputError,
    PenstockError,
    UsageError,
    did_you_mean,
    internal_error,
    raise_interruption,
)
from penstock.limits import exhausted

# Typer's base class of command-line errors; its module depends on the version of Typer.
_COMMAND_LINE: type[Exception] = next(
    base
    for base in typer.BadParameter.__mro__
    if issubclass(base, Exception) and base.__name__ == "ClickException"
)

app = typer.Typer(
    name="penstock",
    help="Compile quantised neural networks to C for microcontrollers and accelerators.",
    epilog="Exit codes: 0 success; 1 error in the model, target or budget, a mismatch found by "
    "`verify`, a CPU fallback with --strict, or a worse result with `compare --fail-if-worse`; "
    "2 usage error; 3 internal error; 4 `scan`: some models do not compile or fail verification; "
    "130 interrupted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (
    build.compile,
    build.explore,
    build.compare_partitions,
    execute.run,
    check.verify,
    execute.profile,
    scan.scan,
):
    app.command(cls=SectionedCommand, epilog=TERMS)(with_options(command))
for command in (
    *(check.compare, check.golden, show.show, lists.targets, lists.ops, lists.options),
    build.demo,
):
    app.command(cls=SectionedCommand)(with_options(command))
backend_app = typer.Typer(help="List accelerators, or create a package for a new one.")
backend_app.command("list", cls=SectionedCommand)(lists.list_backends)
backend_app.command("new", cls=SectionedCommand)(lists.new)
app.add_typer(backend_app, name="backend")


def _print_version(wanted: bool) -> None:
    if wanted:
        from penstock.revision import identity

        print(f"penstock {identity()}")
        raise typer.Exit


@app.callback()
def _root(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print version and commit, and exit.",
            callback=_print_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    del show_version


# Exit code if the reader of the output ends first, as in `penstock .. | head`: that of SIGPIPE.
_BROKEN_PIPE = 128 + 13


def main() -> None:
    """Run the command line and exit: 0 success, 1 error in the model, target or budget, 2 usage
    error, 3 internal error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # file names may not be encodable
            stream.reconfigure(errors="backslashreplace")
    try:
        code = app(prog_name="penstock", standalone_mode=False)
        if sys.stdout is not None:  # the caller closed it
            sys.stdout.flush()
        sys.exit(code if isinstance(code, int) else 0)
    except PenstockError as error:
        _fail(error)
    except _COMMAND_LINE as error:
        _fail_usage(error)
    except BrokenPipeError:
        if sys.stdout is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(_BROKEN_PIPE)
    except OSError as error:
        _fail(_refused(error) or internal_error(error))
    except Exception as error:  # any other exception is a defect of penstock
        raise_interruption(error)
        _fail(exhausted() if isinstance(error, MemoryError) else internal_error(error))


# Error numbers of failed writes that are not defects of penstock.
_REFUSALS = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS))


def _refused(error: OSError) -> OutputError | None:
    """The error for a write that the operating system refused; None for other errors."""
    if error.errno not in _REFUSALS:
        return None
    return OutputError(
        "output-004",
        f"the machine refused a write: {error.strerror}",
        where=str(error.filename or "standard output or a temporary file"),
        help="free some space, or name another device; TMPDIR says where temporary files go",
    )


def _fail(error: PenstockError) -> NoReturn:
    if "--json" in sys.argv:
        with suppress(OSError):  # if standard output is full, the message below states it
            print(json.dumps({"error": error.parts()}, indent=2), flush=True)
    print_error(error)
    sys.exit(error.exit_code)


# How like an option must be to an unknown one to be suggested; dashes are alike in all of them.
ALIKE_OPTIONS = 0.75


def _fail_usage(error: Any) -> NoReturn:
    """Report an error of Typer as a UsageError; without arguments, print the help."""
    if len(sys.argv) == 1:
        error.show()
        sys.exit(error.exit_code)
    command = error.ctx.command_path if error.ctx else _command_of_arguments()
    what = " ".join(error.format_message().split()).rstrip(".")
    help = f"`{command} --help` lists what there is"
    if error.ctx and hasattr(error, "option_name"):  # otherwise, the message holds suggestions
        what = what.partition(" (Possible options")[0]
        known = chain.from_iterable(parameter.opts for parameter in error.ctx.command.params)
        help = f"{did_you_mean(error.option_name, known, ALIKE_OPTIONS)}{help}"
    _fail(UsageError("usage-020", what[:1].lower() + what[1:], where=command, help=help))


def _command_of_arguments() -> str:
    known = [getattr(one.callback, "__name__", one.name) for one in app.registered_commands]
    return " ".join(("penstock", *(word for word in sys.argv[1:2] if word in known)))
