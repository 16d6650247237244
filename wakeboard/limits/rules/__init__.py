"""Pure rules of limits."""
