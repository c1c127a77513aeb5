"""main: parses the command line, runs a verb, turns errors into messages and exit codes."""

from __future__ import annotations

import json
import os
import sys
import traceback

import typer

from penstock.cli import verbs
from penstock.cli.parameters import with_options
from penstock.errors import InternalError, PenstockError

app = typer.Typer(
    name="penstock",
    help="Quantised neural networks into bare C, in the memory that the device has.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for verb in (verbs.compile, verbs.run, verbs.verify, verbs.profile):
    app.command()(with_options(verb))
for verb in (verbs.golden, verbs.show, verbs.targets, verbs.ops, verbs.options, verbs.demo):
    app.command()(verb)


@app.callback()
def _root() -> None:
    """Quantised neural networks into bare C, in the memory that the device has."""


def main() -> None:
    """The entry point: exits with 0 done, 1 the model, target or budget, 2 usage, 3 our fault."""
    try:
        app()
    except PenstockError as error:
        _fail(error)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:  # whatever else is raised is our fault, and says so in one place
        _fail(_internal(error))


def _fail(error: PenstockError) -> None:
    if "--json" in sys.argv:
        parts = {"code": error.code, "what": error.what, "where": error.where, "why": error.why}
        print(json.dumps({"error": {**parts, "help": error.help}}, indent=2))
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)


def _internal(error: Exception) -> InternalError:
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{os.path.basename(last.filename)}:{last.lineno}"
    return InternalError(
        "internal-001",
        f"{type(error).__name__}: {error}",
        where=place,
        why="this is a mistake in penstock, not in your model",
        help="please report it with the model, or with `penstock show MODEL --stop-after read`",
    )
