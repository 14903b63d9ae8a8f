"""Groups that must, or should, be near each other: KAI's `topology`."""
