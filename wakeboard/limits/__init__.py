"""Limits: how many runs of a key execute at once, and how many start in a time."""
