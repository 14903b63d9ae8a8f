"""Which actions and plugins, with typed arguments; parsed once, at the edge."""
