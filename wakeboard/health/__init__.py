"""The health of the installation: each condition is one object, for `wakeboard check`, the board and the metrics."""
