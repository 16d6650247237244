"""Kubernetes: where its API server is, and who this pod is."""
