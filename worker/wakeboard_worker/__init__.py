"""The worker: one process that claims due runs, runs them, writes down what became of them, and goes back to sleep."""
