"""The HTTP API of `muster web`: reads the cluster like a scheduler, decides, and writes nothing."""
