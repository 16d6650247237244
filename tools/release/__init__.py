"""Builds what a release consists of: `make release` writes it into dist/, `make release-check` proves it from there.

`artifacts.py` has the list: an artifact is one entry, with a function that writes its files into an empty folder.
Manifest, checksums, docs/releasing.md and the checks follow from the list. The same commit gives the same bytes: every
time in an archive is that of the commit.
"""
