"""Read-only queries of what an action changes."""
