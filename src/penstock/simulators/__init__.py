"""Simulators: the graph's meaning, the modelled machine, the simulated core; and comparison."""
