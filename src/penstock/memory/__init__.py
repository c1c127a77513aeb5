"""Memory placement: addresses for buffers with given live ranges, independent of networks."""
