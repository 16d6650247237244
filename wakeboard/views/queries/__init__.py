"""Read-only queries of the read model."""
