"""Pure rules of dependencies."""
