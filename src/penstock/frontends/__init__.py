"""Model files into graphs: decoders, which know no operator, and `open`, which asks them."""
