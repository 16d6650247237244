"""Backfills: runs for ticks of the past."""
