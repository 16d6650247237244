"""The command `wakeboard version`."""

from __future__ import annotations

from wakeboard.cli.support.options import AsJson
from wakeboard.cli.support.output import print_json, print_message

EXAMPLES = ("wakeboard version --json",)


def command(as_json: AsJson = False) -> None:
    """Print the versions of wakeboard, Python and tzdata."""
    import platform

    from wakeboard import __version__
    from wakeboard.ticks.zones import tzdata_version

    if as_json:
        print_json({"wakeboard": __version__, "python": platform.python_version(), "tzdata": tzdata_version()})
    else:
        print_message(f"wakeboard {__version__}, Python {platform.python_version()}, tzdata {tzdata_version()}")
