"""Kernels for Armv6-M, whose multiplier keeps the low 32 bits."""
