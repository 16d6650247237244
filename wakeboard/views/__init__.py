"""The read model of runs and schedules, for the command line and the board."""
