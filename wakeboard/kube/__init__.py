"""Kubernetes: where its API server is, and how a process logs in."""
