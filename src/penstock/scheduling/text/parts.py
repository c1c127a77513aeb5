"""Text of parts: the graph, then one line per part with its engine and kernels.

    graph lenet5
    ..
    output scores

    accelerators npu
    stream input
    part conv1: conv2d_dsp on cortex-m4 scratch 352 fallback conv2d_s8
    part dense1: npu_dense on npu prefetch 4096
    cpu_fallback pool1: 1234 cycles, "no pattern of npu matches this node"

    stream NAME     a network input whose rows the application supplies during the run
    scratch N       scratch memory of the preferred kernel, in bytes
    fallback NAME   the kernel with the least scratch memory
    prefetch N, M   for each kernel that reads constants from a prefetched copy: the size of the
                    copy in bytes
    cpu_fallback NAME: CYCLES cycles, REASON
                    a node that no accelerator claims; if a pass has rewritten the node in the
                    graph, a comma and the original node follow

Node and target determine the kernels, so the text contains only their names.  The reader obtains
the kernels from a `Resolver` and rejects a text that contains other names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from penstock.ir.graph import Graph, Node, Value
from penstock.ir.text.attributes import Classes
from penstock.ir.text.constants import Constants, ConstantTable, data_lines, split_data_lines
from penstock.ir.text.labels import Labels
from penstock.ir.text.printer import graph_lines, print_node
from penstock.ir.text.reader import GraphReader
from penstock.scanner import Scanner, name_or_string, quoted
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import CpuFallback, Parts


class Resolver(Protocol):
    """Provides kernels to `read_parts`, since the text of parts contains only names of kernels."""

    def graph(self, graph: Graph) -> Graph:
        """Return the graph with a kernel in each composite node.

        A composite node represents a sub-graph that an accelerator runs.
        """
        ...

    def part(self, node: Node) -> Part:
        """Return a node with its engine and kernels, as a part."""
        ...

    def stream(self, value: Value) -> Part:
        """Return the part that stands for a streamed input.

        The application supplies the rows of such a network input during the run.
        """
        ...


@dataclass(frozen=True, slots=True)
class _PartLine:
    """The contents of a part's line in the text.

    kernel, engine: names of the preferred kernel and of the engine.
    scratch_bytes: scratch memory of the preferred kernel.
    fallback: name of the fallback kernel, or "" if there is none.
    prefetch_bytes: for each prefetching kernel, the size of the copy of constants that it reads.
    """

    kernel: str
    engine: str
    scratch_bytes: int
    fallback: str
    prefetch_bytes: tuple[int, ...]

    @staticmethod
    def of(part: Part) -> _PartLine:
        return _PartLine(
            part.kernel.name,
            part.engine,
            part.kernel.scratch_bytes,
            "" if part.fallback is None else part.fallback.name,
            tuple(k.prefetch.size_bytes for k in part.prefetching if k.prefetch is not None),
        )

    def __str__(self) -> str:
        text = f"{name_or_string(self.kernel)} on {name_or_string(self.engine)}"
        if self.scratch_bytes:
            text += f" scratch {self.scratch_bytes}"
        if self.fallback:
            text += f" fallback {name_or_string(self.fallback)}"
        if self.prefetch_bytes:
            text += f" prefetch {', '.join(map(str, self.prefetch_bytes))}"
        return text


def print_parts(parts: Parts, *, with_data: bool = False) -> str:
    """Return parts as text.

    with_data: append the contents of the constants that the text refers to by digest (hash).
    """
    table, labels = ConstantTable(), Labels.of(parts.graph)
    lines = (*graph_lines(parts.graph, labels, table), "", *_part_lines(parts, labels, table))
    text = "".join(f"{line}\n" for line in lines)
    return text + data_lines(table.found) if with_data else text


def read_parts(
    text: str, classes: Classes, resolver: Resolver, constants: Constants | None = None
) -> Parts:
    """Parse the text of parts.

    classes: the classes whose instances occur in texts, by name: operators, and records that are
        fields of operators.
    resolver: provides the kernels that the text names.
    constants: contents of constants by digest, for a text that does not contain them.

    Raises ModelError if the text is malformed or names other kernels than the resolver provides.
    """
    body, found = split_data_lines(text)
    scanner = Scanner(body)
    reader = GraphReader(scanner, classes, {**(constants or {}), **found})
    graph = resolver.graph(reader.graph())
    return _PartsReader(scanner, reader, graph, resolver).parts()


def _part_lines(parts: Parts, labels: Labels, table: ConstantTable) -> Iterator[str]:
    if parts.accelerators:
        yield f"accelerators {', '.join(map(name_or_string, parts.accelerators))}"
    for part in parts.parts:
        if part.streamed_input is not None:
            yield f"stream {labels(part.name)}"
        else:
            yield f"part {labels(part.name)}: {_PartLine.of(part)}"
    nodes = {node.name: node for node in parts.graph.nodes}
    for fallback in parts.cpu_fallbacks:
        line = f"cpu_fallback {labels(fallback.node.name)}: {fallback.cycles} cycles"
        line = f"{line}, {quoted(fallback.reason)}"
        rewritten = nodes.get(fallback.node.name) != fallback.node
        yield f"{line}, {print_node(fallback.node, labels, table)}" if rewritten else line


class _PartsReader:
    """Parses the lines after the graph in a text of parts."""

    def __init__(
        self, scanner: Scanner, reader: GraphReader, graph: Graph, resolver: Resolver
    ) -> None:
        self._scanner = scanner
        self._reader = reader
        self._labels = reader.labels
        self._graph = graph
        self._resolver = resolver
        self._nodes = {node.name: node for node in graph.nodes}
        self._inputs = {value.name: value for value in graph.inputs}

    def parts(self) -> Parts:
        scanner = self._scanner
        scanner.skip_newlines()
        accelerators: list[str] = []
        if scanner.accept_word("accelerators"):
            accelerators.append(scanner.name())
            while scanner.accept(","):
                accelerators.append(scanner.name())
            scanner.end_statement()
        parts: list[Part] = []
        fallbacks: list[CpuFallback] = []
        while not scanner.at_end:
            keyword = scanner.expect_word("part", "stream", "cpu_fallback")
            if keyword == "cpu_fallback":
                fallbacks.append(self._cpu_fallback())
            else:
                parts.append(self._part() if keyword == "part" else self._stream())
            scanner.end_statement()
        updates = (self._resolver.part(state.update) for state in self._graph.states)
        return Parts(
            self._graph, tuple(parts), tuple(accelerators), tuple(fallbacks), tuple(updates)
        )

    def _stream(self) -> Part:
        at = self._scanner.peek()
        value = self._inputs.get(self._labels.name())
        if value is None:
            raise self._scanner.unknown(f"{at} is no input of the graph", at=at)
        return self._resolver.stream(value)

    def _part(self) -> Part:
        scanner = self._scanner
        node = self._node()
        at = scanner.peek()
        stated = self._part_line()
        part = self._resolver.part(node)
        found = _PartLine.of(part)
        if found != stated:
            raise scanner.contradiction(
                f"the text says {stated}, the target's kernel is {found}", at=at
            )
        return part

    def _part_line(self) -> _PartLine:
        scanner = self._scanner
        kernel = scanner.name()
        scanner.expect_word("on")
        engine = scanner.name()
        scratch = scanner.integer() if scanner.accept_word("scratch") else 0
        fallback = scanner.name() if scanner.accept_word("fallback") else ""
        prefetch: list[int] = []
        if scanner.accept_word("prefetch"):
            prefetch.append(scanner.integer())
            while scanner.accept(","):
                prefetch.append(scanner.integer())
        return _PartLine(kernel, engine, scratch, fallback, tuple(prefetch))

    def _cpu_fallback(self) -> CpuFallback:
        scanner = self._scanner
        at = scanner.peek()
        node = self._nodes.get(self._labels.name())
        scanner.expect(":")
        cycles = scanner.integer()
        scanner.expect_word("cycles")
        scanner.expect(",")
        reason = scanner.string()
        if scanner.accept(","):
            node = self._reader.node()
        if node is None:
            raise scanner.unknown(f"{at} is no node of the graph", at=at)
        return CpuFallback(node, reason, cycles)

    def _node(self) -> Node:
        """Parse the label of a node and a colon; return the node.

        A label is the node's name, or the handle that stands for it, such as "%0" (`Labels`).
        """
        at = self._scanner.peek()
        node = self._nodes.get(self._labels.name())
        if node is None:
            raise self._scanner.unknown(f"{at} is no node of the graph", at=at)
        self._scanner.expect(":")
        return node
