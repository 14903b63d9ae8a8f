"""The cluster as the engine sees it at one instant: columns advanced by deltas."""
