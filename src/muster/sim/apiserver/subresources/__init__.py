"""Subresources that are not a view of the object itself, each with a handler of its own."""
