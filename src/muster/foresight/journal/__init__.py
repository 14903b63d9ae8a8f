"""The journal of decisions: what every cycle saw and decided, kept and made again."""
