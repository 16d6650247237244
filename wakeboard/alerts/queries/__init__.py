"""Read-only queries of alerts."""
