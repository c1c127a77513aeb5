"""Networks as people make them with today's exporters, and what becomes of them."""
