"""The image that all services run from, without a container engine: files, layers, layout.

`python -m tools.image.build` writes an OCI layout; the Dockerfile uses the same `rootfs` for its
files, so that both are one image.
"""
