"""The engine: runs, leases and ticks. What is here is not changed without thought."""
