"""One module per family of cases; each registers its cases with `benchmarks.registry.case`."""
