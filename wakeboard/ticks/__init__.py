"""Ticks: cron expressions, time zones, clock changes and catch-up. Pure functions."""
