"""Errors that concern a point of the frontier: they name it, and the settings that select it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from penstock.choices import Optimize
from penstock.errors import BackendError, InternalError
from penstock.pipeline.placed_point import PlacedPoint
from penstock.pipeline.request import Request


@contextmanager
def located_at(point: PlacedPoint, request: Request) -> Generator[None]:
    """Name a point, and the settings that verify it alone, in errors of the reference machine."""
    try:
        yield
    except (BackendError, InternalError) as error:
        budget, goal, last = point.ram_bytes(request), Optimize.SPEED, "machine"
        alone = f"--sram {budget} --optimize {goal} --last-rung {last}"
        if request.graph is not None:
            alone = f'sram={budget}, optimize="{goal}", last_rung="{last}"'
        again = f"to run this point only, repeat the verification with {alone}"
        where = f"{point.schedule.parts.graph.name}, the point of {point.height_bytes} bytes"
        help = f"{error.help}; {again}" if error.help else again
        raise error.at(where).but(help=help) from error
