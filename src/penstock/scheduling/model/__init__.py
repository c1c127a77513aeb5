"""Data model: parts, row dependences, plans, prefetches, memory assignments and costs."""
