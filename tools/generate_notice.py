"""Prints NOTICE: whose work the images contain, and under which licences."""

from __future__ import annotations

import sys

from tools.image_packages import LOCKS, Package, packages

HEAD = """wakeboard
Copyright 2026 the wakeboard authors

Licensed under the Apache License, Version 2.0 (see LICENSE).

The container images contain the packages below, each under its own licence. The text of each licence is in the
package's *.dist-info folder in the image. They also contain the base image that they were built on (by default
Debian with CPython, which is under the PSF-2.0 licence; /usr/share/doc/*/copyright has Debian's).

psycopg and psycopg-binary are under the LGPL-3.0-only: they are installed as separate packages, unmodified, and may be
replaced by another version. psycopg-binary bundles libpq (PostgreSQL licence), OpenSSL (Apache-2.0) and the libraries
that these need. certifi is under the MPL-2.0: it is installed unmodified, and its source is its package.
wakeboard itself bundles htmx (0BSD), the board's script in the browser: wakeboard/board/static/vendor.
PyYAML bundles libyaml (MIT); aiohttp bundles llhttp (MIT); pydantic-core is compiled from Rust crates under MIT or
Apache-2.0.
"""


def main() -> None:
    """Writes to standard output."""
    found: dict[Package, list[str]] = {}
    for image in LOCKS:
        for package in packages(image):
            found.setdefault(package, []).append(image)
    lines = [HEAD]
    for package in sorted(found, key=lambda package: package.name):
        where = ", ".join(found[package])
        lines += [f"{package.name} {package.version}: {package.licence} (in {where})", f"  {package.homepage}"]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
