"""Execution orders: a topological order of least peak memory, and heuristic orders by name."""
