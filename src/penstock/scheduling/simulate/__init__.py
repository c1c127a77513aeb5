"""Simulation of schedules, without tensor data: calls, live ranges, peak memory, traffic, cost."""
