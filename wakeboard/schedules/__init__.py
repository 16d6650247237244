"""Schedules: what a JobSchedule declares, how it is stored, and how its ticks become runs."""
