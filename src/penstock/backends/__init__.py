"""Backends: which engine runs which nodes, with which kernels, at what cost."""
