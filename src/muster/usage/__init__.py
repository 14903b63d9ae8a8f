"""Past usage per queue: read from Prometheus or kept in a store of our own; accounts of it."""
