"""What each process has: a clock, output, logs, telemetry."""
