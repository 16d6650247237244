"""Pure rules: they read no clock and do no I/O."""
