"""Simulators: graph interpreter, reference machine, simulated cores; ground truth and
comparison."""
