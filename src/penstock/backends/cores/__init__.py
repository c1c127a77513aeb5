"""Core families: C kernels per instruction set, one folder each, and what the families share."""
