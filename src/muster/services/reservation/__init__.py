"""Runs inside the reservation pod: finds its GPU, writes one annotation."""
