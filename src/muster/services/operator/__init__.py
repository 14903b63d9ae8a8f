"""Installs everything else: reads Config and SchedulingShards, writes what they ask for."""
