"""The command `show`: the result of a stage as text, nodes, built-in models."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from penstock import api
from penstock.cli import parameters as p
from penstock.cli.terminal import out, print_json
from penstock.hardware.default_target import DEFAULT_TARGET
from penstock.pipeline.request import STAGE_NAMES

if TYPE_CHECKING:
    from penstock.pipeline.request import Request
    from penstock.reports.layer import NodeLine


def show(
    model: p.Model,
    target: p.TargetName = DEFAULT_TARGET,
    *,
    stop_after: Annotated[
        str, typer.Option(metavar="STAGE", help=f"One of {', '.join(STAGE_NAMES)}.")
    ] = "simplify",
    nodes: Annotated[
        bool, typer.Option(help="Print one line per node, with the engine that runs it.")
    ] = False,
    explain_pattern: Annotated[
        str | None,
        typer.Option(
            metavar="NODE",
            help="Print why the patterns of the accelerators match or do not match at a node.",
        ),
    ] = None,
    with_data: Annotated[
        bool,
        typer.Option(help="Include constants, so that the text of a graph can be parsed back."),
    ] = False,
    settings: api.Settings,
    workers: p.Workers = 1,
    as_json: p.Json = False,
) -> None:
    """Print the result of a pipeline stage as text.  `penstock show zoo:` lists the built-in models
    and their options."""
    if model == "zoo:":
        _print_zoo(as_json)
        return
    wanted = api.request(model, target, **settings)
    if explain_pattern is not None:
        _print_explanation(api.explain_pattern(wanted, explain_pattern), as_json)
        return
    if nodes:
        _print_nodes(api.nodes(wanted), as_json)
        return
    show_stage(wanted, stop_after, workers, as_json, with_data=with_data)


def show_stage(
    wanted: Request, stage: str, workers: int, as_json: bool, *, with_data: bool = False
) -> None:
    """Run the stages up to one and print its result.  Raises UsageError if there is none such."""
    shown = api.show(wanted, stop_after=stage, with_data=with_data, workers=workers)
    if as_json:
        print_json({"stage": stage, "text": shown})
    else:
        print(shown, end="")


def _print_nodes(nodes: Sequence[NodeLine], as_json: bool) -> None:
    if as_json:
        print_json({"nodes": [dataclasses.asdict(node) for node in nodes]})
        return
    from penstock.reports.tables import node_table

    out().print(node_table(nodes))


def _print_explanation(lines: Sequence[str], as_json: bool) -> None:
    if as_json:
        print_json({"explanation": lines})
        return
    for line in lines:
        print(line)


def _print_zoo(as_json: bool) -> None:
    from penstock.zoo.registry import zoo_networks

    exhibits = zoo_networks()
    if as_json:
        print_json({"zoo": [dataclasses.asdict(exhibit) for exhibit in exhibits]})
        return
    for exhibit in exhibits:
        defaults = ",".join(f"{o.name}={o.default}" for o in exhibit.options)
        out().print(f"zoo:{exhibit.name}:{defaults}", highlight=False)
        out().print(f"    {exhibit.summary}", style="dim", highlight=False)
