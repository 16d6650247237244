"""The worker: a process that claims due runs, calls their handlers, and reports the outcomes to the store."""
