"""What executes: the reference runtime, and the archives of what it said."""
