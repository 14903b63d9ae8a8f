"""Past usage per queue, for time-aware fairness."""
