"""Where a task may run, resources apart: conditions, taints, selectors, ports, volumes, other
pods.
"""
