"""Hardware: facts about chips, with units."""
