"""Random faults against real workers and a real PostgreSQL, and a check of what we promise: `make chaos`."""
