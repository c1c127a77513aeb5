"""Kernels for the DSP extension of Armv7E-M and Armv8-M."""
