"""Data model of scheduling: parts (nodes with kernels), plans, prefetches, memory and costs."""
