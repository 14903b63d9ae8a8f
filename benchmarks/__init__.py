"""How fast, measured: cases, their bars, and what was last seen on which machine."""
