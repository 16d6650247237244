"""The engine: runs, leases and maintenance. What is here is not changed without thought."""
