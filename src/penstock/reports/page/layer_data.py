"""Layers as data of a page: figures, facts, tensors and steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.reports.formats import ABSENT, extents, first_name, printable, short_names
from penstock.reports.layer_tensor import LayerTensor
from penstock.reports.model_layer import ModelLayer, layer_indices
from penstock.reports.page.records import LayerData, LayerTensorData, StepData
from penstock.reports.row import LayerRow, Measured, has_bands, rows
from penstock.reports.timeline import Timeline


def layer_data(
    layers: Sequence[ModelLayer],
    timelines: Sequence[Timeline],
    measured: Sequence[Measured | None] | None,
) -> tuple[LayerData, ...]:
    """Return the data of the layers; `measured` contains the counts of each step."""
    names = short_names(layer.name for layer in layers)
    live = {
        name: span.most_bytes
        for timeline in timelines
        for span in timeline.spans
        for name in span.layers
    }
    found, owners = rows(layers, measured), layer_indices(layers)
    in_bands = has_bands(found)
    return tuple(_layer(row, names, live, owners, in_bands=in_bands) for row in found)


def _layer(
    row: LayerRow,
    names: Mapping[str, str],
    live: Mapping[str, int],
    owners: Mapping[int, int],
    *,
    in_bands: bool,
) -> LayerData:
    """Return the data of a layer.

    names: short names, by name; live: bytes of each tensor that are live at a time, at most.
    owners: the layer of each step. in_bands: whether any layer runs in bands.
    """
    layer, main = row.layer, row.main
    assert isinstance(layer, ModelLayer)
    above, used = row.above_floor, layer.utilisation
    resources = main.breakdown.by_resource if main.breakdown else {}
    constant = main.constant
    own = owners[layer.indices[0]]
    reads = (owners.get(read, -1) for step in layer.steps for read in step.reads)
    return LayerData(
        step=layer.step,
        numbers=row.numbers if len(layer.numbers) > 1 else "",
        kind=printable(layer.kind),
        engine=printable(layer.engine),
        offloaded=layer.offloaded,
        name=names[layer.name],
        full_name=row.full_name,
        shape=extents(layer.shape),
        cascade=main.cascade,
        rows=main.rows,
        reads=tuple(read for read in dict.fromkeys(reads) if read != own),
        calls=layer.calls,
        macs=layer.macs,
        read_bytes=layer.read_bytes,
        written_bytes=layer.written_bytes,
        moved_bytes=layer.moved_bytes,
        live_bytes=live.get(layer.name, main.buffer_bytes or layer.written_bytes),
        ram_bytes=layer.live_bytes,
        cycles=layer.cycles,
        simulated_cycles=row.simulated_cycles,
        instructions=row.instructions,
        kernel=", ".join(map(printable, layer.kernels)),
        requantisation="" if row.classes == ABSENT else row.classes,
        above_floor=None if above is None else round(above, 3),
        limit=printable(layer.limit or ""),
        utilisation=None if used is None else round(used, 4),
        resources={printable(name): round(cycles) for name, cycles in resources.items()},
        constant="" if constant is None else constant.words,
        channels="" if constant is None else constant.ranges,
        bands="" if main.bands is None else main.bands.total_words,
        factor=round(layer.factor, 3) if in_bands else None,
        place=printable(main.place),
        attributes={printable(one.name): printable(one.words) for one in layer.attributes},
        constant_bytes=main.constant_bytes,
        weight_bytes=layer.weight_bytes,
        tensors=tuple(_tensor(one) for one in layer.tensors),
        steps=tuple(_step(step) for step in row.steps),
    )


def _step(row: LayerRow) -> StepData:
    step = row.main
    return StepData(
        step=step.step,
        kind=printable(step.kind),
        bands="" if step.bands is None else step.bands.words,
        shape=extents(step.shape),
        calls=step.calls,
        macs=step.macs,
        read_bytes=step.read_bytes,
        written_bytes=step.written_bytes,
        moved_bytes=step.moved_bytes,
        cycles=step.cycles,
        simulated_cycles=row.simulated_cycles,
        instructions=row.instructions,
        kernel=printable(step.kernel),
    )


def _tensor(one: LayerTensor) -> LayerTensorData:
    scale = ""
    if one.scales:
        least, most = min(one.scales), max(one.scales)
        scale = f"{least:.6g}" if least == most else f"{least:.3g} to {most:.3g}"
        scale += f", {len(one.scales)} channels" if len(one.scales) != 1 else ""
    return LayerTensorData(
        role=one.role,
        name=first_name(one.name),
        full_name=printable(one.name),
        shape=extents(one.shape),
        element_type=one.element_type,
        size_bytes=one.size_bytes,
        scale=scale,
        zero_point="" if one.zero_point is None else str(one.zero_point),
        scales=tuple(f"{x:.6g}" for x in one.scales) if len(one.scales) > 1 else (),
    )
