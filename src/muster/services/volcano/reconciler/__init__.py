"""Read, ask `decide`, write: one module for each controller."""
