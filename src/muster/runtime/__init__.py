"""The frame every controller runs in."""
