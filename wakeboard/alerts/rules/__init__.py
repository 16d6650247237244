"""Pure rules of alerts."""
