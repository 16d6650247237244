"""Runs that are Kubernetes Jobs."""
