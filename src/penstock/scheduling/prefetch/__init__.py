"""Selection of prefetches: copies of constants into faster memory, before calls that read them."""
