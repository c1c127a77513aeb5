"""Backends select the engine of each node (processor or accelerator), and describe its kernels.

A description of a kernel contains its parameters, its cost, and what it stores in constants."""
