"""Kubernetes objects as frozen msgspec structs: parse, print, default, validate. No decisions."""
