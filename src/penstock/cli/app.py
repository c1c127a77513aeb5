"""main: parses the command line, runs a verb, turns errors into messages and exit codes."""

from __future__ import annotations

import errno
import json
import os
import sys
from contextlib import suppress
from importlib.metadata import version
from io import TextIOWrapper
from typing import Annotated, Any, NoReturn

import typer

from penstock.cli import backend, verbs
from penstock.cli.parameters import with_records
from penstock.errors import OutputError, PenstockError, UsageError, internal_error

# Typer's own class of what is wrong with a command line; where it stands differs by version.
_COMMAND_LINE: type[Exception] = next(
    base
    for base in typer.BadParameter.__mro__
    if issubclass(base, Exception) and base.__name__ == "ClickException"
)

app = typer.Typer(
    name="penstock",
    help="Quantised neural networks into bare C, in the memory that the device has.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for verb in (verbs.compile, verbs.explore, verbs.run, verbs.verify, verbs.profile):
    app.command()(with_records(verb))
for verb in (verbs.golden, verbs.show, verbs.targets, verbs.ops, verbs.options, verbs.demo):
    app.command()(verb)
backend_app = typer.Typer(
    help="The accelerators that there are; and a package for a new one.", no_args_is_help=True
)
backend_app.command("list")(backend.list_backends)
backend_app.command("new")(backend.new)
app.add_typer(backend_app, name="backend")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"penstock {version('penstock')}")
        raise typer.Exit


@app.callback()
def _root(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Quantised neural networks into bare C, in the memory that the device has."""
    del show_version


def main() -> None:
    """The entry point: exits with 0 done, 1 the model, target or budget, 2 usage, 3 our fault."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # names of files need not be in the terminal's code
            stream.reconfigure(errors="backslashreplace")
    try:
        code = app(prog_name="penstock", standalone_mode=False)
        if sys.stdout is not None:  # closed by the caller
            sys.stdout.flush()
        sys.exit(code if isinstance(code, int) else 0)
    except PenstockError as error:
        _fail(error)
    except _COMMAND_LINE as error:
        _fail_usage(error)
    except BrokenPipeError:
        if sys.stdout is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        _fail(_refused(error) or internal_error(error))
    except Exception as error:  # whatever else is raised is our fault, and says so in one place
        _fail(internal_error(error))


_REFUSALS = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS))
"""What devices and file systems refuse a write with."""


def _refused(error: OSError) -> OutputError | None:
    """The error of a write that the machine refused; None where it is our fault."""
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
        with suppress(OSError):  # where standard output is full, the message below says so
            print(json.dumps({"error": error.parts()}, indent=2), flush=True)
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)


def _fail_usage(error: Any) -> NoReturn:
    """What Typer says of a command line, as an error of ours; help where nothing was said."""
    if len(sys.argv) == 1:
        error.show()
        sys.exit(error.exit_code)
    command = error.ctx.command_path if error.ctx else "penstock"
    what = " ".join(error.format_message().split()).rstrip(".")
    help = f"`{command} --help` lists what there is"
    _fail(UsageError("usage-020", what[:1].lower() + what[1:], where=command, help=help))
