"""`show`: the result of a stage as text."""

from __future__ import annotations

from typing import Unpack

from penstock.api.argument_types import check_flags
from penstock.api.choices import one_of
from penstock.api.settings import Model, Settings, request
from penstock.api.signatures import with_settings
from penstock.hardware.default_target import DEFAULT_TARGET
from penstock.pipeline.request import Request
from penstock.pipeline.stages import STAGE_NAMES, run_through
from penstock.pipeline.texts import print_stage
from penstock.workers import Workers, executor_of


@with_settings
def show(
    model: Model | Request,
    target: str = DEFAULT_TARGET,
    *,
    stop_after: str = "simplify",
    with_data: bool = False,
    workers: Workers = 1,
    **settings: Unpack[Settings],
) -> str:
    """Run the stages up to one and return its result as text.

    stop_after: the stage, one of "read", "simplify", "assign", "schedule", "place", "lower",
        "write".
    with_data: include constants, so that the text can be parsed back.
    workers: number of processes, or an executor; the result does not depend on it.

    Raises as `compile`; UsageError also if there is no such stage."""
    wanted = model if isinstance(model, Request) else request(model, target, **settings)
    check_flags("show", with_data=with_data)
    one_of(stop_after, STAGE_NAMES, "--stop-after")
    with executor_of(workers) as executor:
        outcomes = run_through(wanted, stop_after, executor)
    return print_stage(outcomes, with_data=with_data)
