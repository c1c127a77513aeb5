"""A target with a slow memory beside a small fast one, where copies of rows pay."""

from __future__ import annotations

from dataclasses import replace

from penstock.hardware.load import load_target

TWO_REGIONS = load_target("two-region")
SLOW = replace(
    TWO_REGIONS,
    memories=(
        replace(TWO_REGIONS.memories[0], bandwidth_bytes_per_cycle=0.125, latency_cycles=40),
        replace(TWO_REGIONS.memories[1], size_bytes=3000),
        replace(TWO_REGIONS.memories[2], bandwidth_bytes_per_cycle=4, latency_cycles=0),
    ),
    engines=(replace(TWO_REGIONS.engines[0], cycles_per_mac=1.0, cycles_per_element=1.0),),
)
