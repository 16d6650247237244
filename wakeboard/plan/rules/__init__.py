"""Pure rules of the comparison."""
