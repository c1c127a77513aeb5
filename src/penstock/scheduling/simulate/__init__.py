"""Simulation of schedules without data: calls, live ranges, peak memory, traffic and cost."""
