"""Passes: graph rewrites that preserve every output, one per file; `order.PASSES` lists them."""
