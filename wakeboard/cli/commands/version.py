"""The command `wakeboard version`."""

from __future__ import annotations

from wakeboard.cli.support.options import AsJson
from wakeboard.cli.support.output import print_answer

EXAMPLES = ("wakeboard version --json",)


def command(as_json: AsJson = False) -> None:
    """Print the versions of wakeboard, Python and tzdata."""
    import platform

    from wakeboard import __version__
    from wakeboard.ticks.zones import tzdata_version

    python, tzdata = platform.python_version(), tzdata_version()
    versions = {"wakeboard": __version__, "python": python, "tzdata": tzdata}
    print_answer(versions, f"wakeboard {__version__}, Python {python}, tzdata {tzdata}", as_json=as_json)
