"""Backends: the engine of each node (processor or accelerator), its kernels and their cost."""
