"""Admission that Kubernetes brings along: defaults and limits that depend on other objects."""
