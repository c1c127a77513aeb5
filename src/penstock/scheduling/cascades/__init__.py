"""Cascade search: candidate cascades for intervals of an order, combined into a Pareto front."""
