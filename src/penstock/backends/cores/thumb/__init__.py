"""Kernels for Armv6-M, whose multiplier yields only the low 32 bits of a product."""
