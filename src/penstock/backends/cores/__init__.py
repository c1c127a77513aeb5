"""Core families: the optimised C kernels of one instruction set each, and code that they share."""
