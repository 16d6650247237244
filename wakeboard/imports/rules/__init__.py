"""Pure rules of the import."""
