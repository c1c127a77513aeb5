"""Memory: rectangles in time and address space, and where to put them. Knows no networks."""
