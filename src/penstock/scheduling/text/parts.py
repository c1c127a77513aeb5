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

Node and target determine the kernels, so the text contains only their names.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.ir.text.attributes import ConstantTable, data_lines
from penstock.ir.text.labels import Labels
from penstock.ir.text.printer import graph_lines, print_node
from penstock.scanner import name_or_string, quoted
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import Parts


def print_parts(parts: Parts, *, with_data: bool = False) -> str:
    """Return parts as text.

    with_data: append the contents of the constants that the text refers to by digest (hash).
    """
    table, labels = ConstantTable(), Labels.of(parts.graph)
    lines = (*graph_lines(parts.graph, labels, table), "", *_part_lines(parts, labels, table))
    text = "".join(f"{line}\n" for line in lines)
    return text + data_lines(table.found) if with_data else text


def _part_lines(parts: Parts, labels: Labels, table: ConstantTable) -> Iterator[str]:
    if parts.accelerators:
        yield f"accelerators {', '.join(map(name_or_string, parts.accelerators))}"
    for part in parts.parts:
        if part.streamed_input is not None:
            yield f"stream {labels(part.name)}"
        else:
            yield f"part {labels(part.name)}: {_kernels(part)}"
    nodes = {node.name: node for node in parts.graph.nodes}
    for fallback in parts.cpu_fallbacks:
        line = f"cpu_fallback {labels(fallback.node.name)}: {fallback.cycles} cycles"
        line = f"{line}, {quoted(fallback.reason)}"
        rewritten = nodes.get(fallback.node.name) != fallback.node
        yield f"{line}, {print_node(fallback.node, labels, table)}" if rewritten else line


def _kernels(part: Part) -> str:
    """The engine and the kernels of a part."""
    text = f"{name_or_string(part.kernel.name)} on {name_or_string(part.engine)}"
    if part.kernel.scratch_bytes:
        text += f" scratch {part.kernel.scratch_bytes}"
    if part.fallback is not None:
        text += f" fallback {name_or_string(part.fallback.name)}"
    copies = [str(k.prefetch.size_bytes) for k in part.prefetching if k.prefetch is not None]
    return f"{text} prefetch {', '.join(copies)}" if copies else text
