"""The logs of runs: how lines become batches, and where they are stored and read."""
