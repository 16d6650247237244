"""The read model of runs, schedules and health, for the command line and the board."""
