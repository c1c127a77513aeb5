"""Selection of prefetches: copies of constants that overlap with earlier calls or cascades."""
