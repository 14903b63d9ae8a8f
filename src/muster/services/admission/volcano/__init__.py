"""Admission of Volcano's kinds: what its webhooks fill in and refuse. Pure."""
