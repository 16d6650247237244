"""What administrators do: cancel, retry, replay, discard, pause, also for many runs at once."""
