"""Default values of built-in kinds, as object -> object, in place. Pure."""
