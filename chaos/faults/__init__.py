"""The faults: one class for each kind."""
