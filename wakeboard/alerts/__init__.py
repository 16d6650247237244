"""Alerts: rules, how they are evaluated, and how notifications are delivered."""
