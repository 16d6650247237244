"""`python -m bench`: how fast wakeboard is on this machine."""
