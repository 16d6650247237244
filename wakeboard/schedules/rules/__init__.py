"""Pure rules of schedules."""
