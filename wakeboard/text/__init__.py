"""Texts: masked, sanitised, shortened and formatted. Pure functions."""
