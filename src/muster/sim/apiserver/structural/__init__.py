"""Structural schemas: the OpenAPI schemas of custom resources, and what they do to objects."""
