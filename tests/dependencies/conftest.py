"""A store for each test."""

from tests.schedules.schedules import store

__all__ = ["store"]
