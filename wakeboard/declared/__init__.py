"""What users declare in YAML: how files are read, and how mistakes are reported."""
