"""Help texts: sections of options, and examples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import typer
from typer.core import TyperArgument, TyperCommand, TyperOption

from penstock.backends.contributions import FORMATS, KINDS, RUNGS, contributions
from penstock.setting import COMMON, GROUPS

# By section, what a help text says of each contribution of a package, in place of "{SECTION}".
_CONTRIBUTED = {
    FORMATS: ", or {name} ({help})",
    RUNGS: ", {name}",
    KINDS: "; {name}: {help}",
}
TERMS = 'The pages "Glossary" and "Search options" of the documentation define the terms.'


class HelpFormatter(Protocol):
    """What a help text is written to; its class depends on the version of Typer."""

    def section(self, name: str) -> AbstractContextManager[None]:
        """Indent what is written in the context below a title."""
        ...

    def write_dl(self, rows: Sequence[tuple[str, str]]) -> None:
        """Write a list of terms and definitions."""
        ...

    def write(self, string: str) -> None:
        """Write a text as it is."""
        ...


class SectionedCommand(TyperCommand):
    """A command whose help lists arguments, then options by section, then examples.

    The section of an option is its `rich_help_panel`, which Typer ignores in plain text."""

    def format_options(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, ctx: typer.Context, formatter: HelpFormatter
    ) -> None:
        """Write a list of parameters for each section."""
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in ("Arguments", *GROUPS)}
        for parameter in self.get_params(ctx):  # pyright: ignore[reportArgumentType]
            record = parameter.get_help_record(ctx)  # pyright: ignore[reportArgumentType]
            if record is not None:
                name, help = record
                help = _with_contributions(help)
                name = getattr(parameter, "metavar", name) if _is_argument(parameter) else name
                sections[_section_title(parameter)].append((name, help))
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def collect_usage_pieces(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, ctx: typer.Context
    ) -> list[str]:
        """The usage line, with required arguments as they are written."""
        pieces = super().collect_usage_pieces(ctx)  # pyright: ignore[reportArgumentType]
        return [piece.removeprefix("{").removesuffix("}") for piece in pieces]

    def format_epilog(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, ctx: typer.Context, formatter: HelpFormatter
    ) -> None:
        """Write the examples, then the epilog."""
        examples = (*EXAMPLES[ctx.command_path], *_contributed_examples(ctx.command_path))
        with formatter.section("Example" if len(examples) == 1 else "Examples"):
            for example in examples:
                formatter.write(f"  {ctx.command_path} {example}".rstrip() + "\n")
        super().format_epilog(ctx, formatter)  # pyright: ignore[reportArgumentType]


def _with_contributions(help: str) -> str:
    for section, text in _CONTRIBUTED.items():
        hole = f"{{{section}}}"
        if hole in help:
            every = contributions(section).values()
            texts = (text.format(name=one.name, help=one.texts["help"]) for one in every)
            help = help.replace(hole, "".join(texts))
    return help


def _contributed_examples(command: str) -> Iterator[str]:
    for one in (one for section in _CONTRIBUTED for one in contributions(section).values()):
        if one.texts.get("example", "").startswith(f"{command} "):
            yield one.texts["example"].removeprefix(f"{command} ")


def _is_argument(parameter: object) -> bool:
    return isinstance(parameter, TyperArgument)


def _section_title(parameter: object) -> str:
    if _is_argument(parameter):
        return "Arguments"
    panel = parameter.rich_help_panel if isinstance(parameter, TyperOption) else None
    return panel or COMMON


EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "penstock compile": (
        "kws.tflite",
        "kws.tflite --target cortex-m0plus --sram 16KiB -o out",
        "kws.tflite --target cortex-m55 --accelerator ethos_u55:macs=128",
    ),
    "penstock explore": (
        "kws.tflite -o frontier",
        "kws.tflite --target cortex-m0plus --keep-input",
    ),
    "penstock compare-partitions": (
        "network.onnx --accelerator nvdla:config=large",
        "network.onnx --accelerator nvdla:config=large -o partitions",
    ),
    "penstock run": (
        "kws.tflite --input features.npy --output scores.npy",
        "kws.tflite --target host",
    ),
    "penstock verify": (
        "kws.tflite --reference tflite",
        "kws.tflite --goldens kws.npz --sram 16KiB --every-point",
    ),
    "penstock profile": (
        "kws.tflite --top 5",
        "kws.tflite --target cortex-m7 -o profile",
        "kws.tflite --no-simulate --json",
    ),
    "penstock scan": (
        "models --stop-after read",
        "models --target cortex-m4 --sram 256KiB --jobs 2",
    ),
    "penstock compare": (
        "before.json after.json",
        "kws-before kws-after --fail-if-worse",
    ),
    "penstock golden": (
        "kws.tflite -o kws.npz",
        "recurrent.tflite -o recurrent.npz --state state_in=state_out",
    ),
    "penstock show": (
        "zoo:",
        "kws.tflite --nodes",
        "kws.tflite --stop-after schedule",
    ),
    "penstock targets": ("", "--show cortex-m4 > board.toml"),
    "penstock ops": ("", "nn.conv2d"),
    "penstock options": ("", "--json"),
    "penstock demo": ("", "--target cortex-m0plus -o digits"),
    "penstock backend list": ("", "--json"),
    "penstock backend new": (
        "my_npu",
        "my_npu --layout files -o packages/my_npu",
    ),
}
