"""Kernels for Cortex-M cores, special to a layer."""
