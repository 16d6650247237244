"""Reads the facts that the conditions look at."""
