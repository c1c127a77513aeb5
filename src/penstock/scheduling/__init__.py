"""Scheduling: in which order, in which stripes, where. Knows sizes and regions, no operators."""
