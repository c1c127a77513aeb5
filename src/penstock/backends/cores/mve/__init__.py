"""Kernels for the vector extension (MVE, Helium) of Armv8.1-M."""
