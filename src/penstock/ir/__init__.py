"""What is computed, in which types: tensors, regions, graphs. Knows no operator by name."""
