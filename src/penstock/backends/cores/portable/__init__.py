"""Portable C11 kernels alone."""
