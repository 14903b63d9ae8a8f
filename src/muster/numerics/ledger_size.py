"""Where a ledger keeps how long its columns are: for all who read or write them."""

VERSION, JOURNAL, SHARES, HELD = range(4)
"""Entries that stand, those that can be undone, shared GPUs, shares held by tasks."""
