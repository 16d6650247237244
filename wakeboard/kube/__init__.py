"""Kubernetes: where its API server is, requests to it, and the watch of a collection."""
