"""Simulators: the graph, the modelled machine, the simulated core; ground truth; comparison."""
