"""PartitionsReport: a network divided into groups by several strategies, as tables and drawings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from penstock.brief import Brief
from penstock.frozen import frozen
from penstock.reports.codec import Json
from penstock.reports.formats import number, printable

# The size of a node in the drawing, and the distance from one node to the next, in pixels.
BOX = (120, 22)
STEP = (140, 48)
MARGIN = 20


@frozen
class PartitionReport:
    """A partition of a network.

    external_bytes: bytes to and from main memory (`Schedule.external_bytes`).
    groups: the names of the nodes of each group, in execution order.
    """

    name: str
    cycles: int
    external_bytes: int
    groups: tuple[tuple[str, ...], ...]

    @property
    def largest(self) -> int:
        """The number of nodes of the largest group."""
        return max(map(len, self.groups), default=0)


@frozen(repr=False)
class PartitionsReport(Brief):
    """The partitions of a network, the one of single layers first.

    nodes: for each node in topological order, the names of the nodes whose tensors it reads.
    """

    model: str
    target: str
    nodes: Mapping[str, Sequence[str]]
    partitions: tuple[PartitionReport, ...]

    def saved(self, one: PartitionReport) -> tuple[float, float]:
        """Return the shares of the (cycles, external bytes) of single layers that are saved."""
        alone, *_ = self.partitions
        pairs = ((one.cycles, alone.cycles), (one.external_bytes, alone.external_bytes))
        cycles, size = (1 - mine / max(1, other) for mine, other in pairs)
        return cycles, size

    def as_json(self) -> dict[str, Json]:
        """Return the contents of partitions.json."""
        return {
            "model": self.model,
            "target": self.target,
            "partitions": [
                {
                    "partition": one.name,
                    "cycles": one.cycles,
                    "external_bytes": one.external_bytes,
                    "groups": [list(group) for group in one.groups],
                }
                for one in self.partitions
            ],
        }

    def page(self) -> bytes:
        """Return partitions.html: a table, and a drawing of each partition."""
        title = escape(printable(f"{self.model} for {self.target}"))
        rows = "".join(
            f"<tr><th>{one.name}</th>"
            + "".join(f"<td>{cell}</td>" for cell in partition_cells(self, one))
            + "</tr>"
            for one in self.partitions
        )
        heads = "".join(f"<th>{head}</th>" for head in ("", *PARTITION_HEADS))
        drawings = "".join(f"<h2>{one.name}</h2>{self.drawing(one)}" for one in self.partitions)
        return (
            '<!doctype html><meta charset="utf-8">'
            '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
            "style-src 'unsafe-inline'\">"
            f"<title>{title}</title><style>body{{font:14px sans-serif;margin:2em}}"
            "td,th{text-align:right;padding:2px 10px}</style>"
            f"<h1>{title}</h1><table><tr>{heads}</tr>{rows}</table>"
            f"<p>{LEGEND}</p>{drawings}\n"
        ).encode()

    def drawing(self, one: PartitionReport) -> str:
        """Return an SVG of the network, in which the nodes of a group have one colour."""
        places = self._places()
        group = {name: g for g, names in enumerate(one.groups) for name in names}
        width = max((x for x, _ in places.values()), default=0) + BOX[0] + MARGIN
        height = max((y for _, y in places.values()), default=0) + BOX[1] + MARGIN
        inner = "".join((*self._edges(places, group), *self._boxes(places, group, one.groups)))
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'font-family="sans-serif" font-size="11">{inner}</svg>'
        )

    def _places(self) -> Mapping[str, tuple[int, int]]:
        """Where each node is drawn: its row is the length of the longest path that ends at it."""
        depths: dict[str, int] = {}
        columns: dict[int, int] = {}
        found: dict[str, tuple[int, int]] = {}
        for name, reads in self.nodes.items():
            depth = depths[name] = max((depths[r] + 1 for r in reads), default=0)
            column = columns[depth] = columns.get(depth, -1) + 1
            found[name] = MARGIN + column * STEP[0], MARGIN + depth * STEP[1]
        return found

    def _edges(
        self, places: Mapping[str, tuple[int, int]], group: Mapping[str, int]
    ) -> Iterator[str]:
        for name, reads in self.nodes.items():
            x, y = places[name]
            for read in reads:
                left, top = places[read]
                inside = group.get(read) == group.get(name)
                style = "#2a2" if inside else '#999" stroke-dasharray="4 3'
                half = BOX[0] // 2
                yield (
                    f'<line x1="{left + half}" y1="{top + BOX[1]}" x2="{x + half}" y2="{y}" '
                    f'stroke="{style}"/>'
                )

    def _boxes(
        self,
        places: Mapping[str, tuple[int, int]],
        group: Mapping[str, int],
        groups: Sequence[Sequence[str]],
    ) -> Iterator[str]:
        for name, (x, y) in places.items():
            g = group.get(name)
            alone = g is None or len(groups[g]) == 1
            # the golden angle gives neighbouring groups different hues
            fill = "#eee" if alone or g is None else f"hsl({g * 137.5 % 360:.0f},70%,80%)"
            said = escape(printable(name))
            short = escape(printable(name if len(name) < 19 else f"{name[:17]}…"))
            yield (
                f'<g><title>{said}</title><rect x="{x}" y="{y}" width="{BOX[0]}" '
                f'height="{BOX[1]}" rx="4" fill="{fill}" stroke="#555"/>'
                f'<text x="{x + 6}" y="{y + 15}">{short}</text></g>'
            )


LEGEND = (
    "Nodes of a group have one colour; single nodes are grey. "
    "A dashed line is a transfer to another group."
)
PARTITION_HEADS = ("cycles", "saved", "external bytes", "saved", "groups", "largest")


def partition_cells(found: PartitionsReport, one: PartitionReport) -> tuple[str, ...]:
    """Return the cells of a partition in a table, under `PARTITION_HEADS`."""
    cycles, size = found.saved(one)
    return (
        number(one.cycles),
        f"{cycles:.1%}",
        number(one.external_bytes),
        f"{size:.1%}",
        number(len(one.groups)),
        number(one.largest),
    )
