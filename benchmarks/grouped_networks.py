"""GroupedNetworks: the networks of the benchmarks of groups on NVDLA, and their command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic

from benchmarks.graph_groups import short_name
from benchmarks.record import Record, Row

CONFIGURATIONS = ("large",)
"""Those with a second memory."""
NETWORKS = (
    "zoo:resnet8",
    "vww_96_int8.tflite",
    "kws_ref_model.tflite",
    "mobilenetv2_160_035.tflite",
    "zoo:vgg16",
    "zoo:squeezenet",
    "zoo:googlenet",
    "zoo:inception_v3",
    "zoo:resnet50",
    "zoo:densenet121",
    "zoo:nasnet_mobile",
    "zoo:randwire",
    "zoo:mobilenet_v2",
)
"""Of the zoo, and models of others."""


@dataclass(frozen=True, slots=True)
class Job(Generic[Row]):
    """A measurement of a network on a configuration, which yields a row.

    case: what distinguishes it from others of the network and configuration.
    """

    model: str
    config: str
    case: str
    measure: Callable[[], Row]

    @property
    def name(self) -> str:
        """Of the network and configuration, in tables."""
        return f"{short_name(self.model)}, {self.config}"

    @property
    def key(self) -> str:
        """The name of the row in a record."""
        return f"{self.name}, {self.case}" if self.case else self.name


@dataclass(frozen=True, slots=True)
class Selection:
    """What a command line selects.

    models, configs: the networks and configurations that can be selected.
    networks: short names of those to be measured; None for all of them.
    record: the rows that were measured earlier.
    again: whether selected rows of the record are measured again.
    host: whether C code of large networks runs on this machine.
    """

    models: tuple[str, ...]
    configs: tuple[str, ...]
    networks: tuple[str, ...] | None
    record: Record
    again: bool
    host: bool

    def rows(self, jobs: Iterable[Job[Row]], parse: Callable[[Any], Row]) -> list[Row]:
        """The rows of all jobs that are recorded or selected, in the order of the jobs.

        Selected ones that are not recorded are measured, and recorded at once.  `parse`: see
        `Record.rows`.
        """
        rows = self.record.rows(parse)
        found: list[Row] = []
        for job in jobs:
            if self.selects(job) and (self.again or job.key not in rows):
                print(f"compiling {job.key}", file=sys.stderr)
                rows[job.key] = job.measure()
                self.record.write(rows)
            if job.key in rows:
                found.append(rows[job.key])
        return found

    def selects(self, job: Job[Any]) -> bool:
        """Whether the command line selects a job."""
        named = self.networks is None or short_name(job.model) in self.networks
        return named and job.config in self.configs


def selection(
    program: str,
    text: str,
    arguments: Sequence[str],
) -> Selection:
    """What a command line selects.

    program, text: the module of the command, and its help.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=text)
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="folder of models")
    parser.add_argument("--network", action="append", metavar="NAME", help="measure this one only")
    parser.add_argument("--config", action="append", choices=CONFIGURATIONS, help="this one only")
    parser.add_argument(
        "--record",
        type=Path,
        metavar="FILE",
        help="add measured rows to FILE, and print all rows of FILE, which are not measured again",
    )
    parser.add_argument("--again", action="store_true", help="replace rows of the record")
    parser.add_argument("--host", action="store_true", help="run C code of large networks, too")
    wanted = parser.parse_args(arguments)
    return Selection(
        models(wanted.folder),
        tuple(wanted.config or CONFIGURATIONS),
        tuple(wanted.network) if wanted.network else None,
        Record(wanted.record),
        wanted.again,
        wanted.host,
    )


def models(folder: Path | None) -> tuple[str, ...]:
    """The networks of the zoo, and those of a folder.

    >>> len(models(None)), len(models(Path()))
    (10, 13)
    """
    zoo = tuple(name for name in NETWORKS if name.startswith("zoo:"))
    if folder is None:
        return zoo
    return tuple(name if name in zoo else str(folder / name) for name in NETWORKS)
