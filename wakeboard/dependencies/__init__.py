"""Dependencies: schedules and runs that wait for others."""
