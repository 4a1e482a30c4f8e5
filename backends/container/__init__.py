"""Podman: its private store, images, and the containers of tier ``container``."""
