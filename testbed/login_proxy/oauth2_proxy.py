"""A real oauth2-proxy: the version that binary/go.mod names, built into the user's cache, and run with two files.

`python -m testbed.login_proxy.oauth2_proxy` builds it if it is missing. See tools/go_programs.py.
"""

from __future__ import annotations

import shutil
import subprocess
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.error import URLError

from testbed.processes import wait_for
from tools.go_programs import build, cache, file_lock, key
from wakeboard.local.child_process import ends_with_parent

if TYPE_CHECKING:
    from collections.abc import Generator

SOURCE: Final = Path(__file__).resolve().parent / "binary"
STRIPPED: Final = "-s -w"  # no debug symbols
STOP_TIMEOUT_S: Final = 5.0


def program() -> Path:
    """The path of oauth2-proxy. Builds it if it is missing, which takes minutes."""
    folder = cache() / "oauth2-proxy" / key(SOURCE, STRIPPED)
    with file_lock(folder.parent / "lock", "oauth2-proxy"):
        if not folder.exists():
            unfinished = folder.with_name(f"{folder.name}-unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            build("oauth2-proxy", SOURCE, "tool", STRIPPED, unfinished)
            next(unfinished.iterdir()).rename(unfinished / "oauth2-proxy")  # Go names it after its major version
            unfinished.rename(folder)
    return folder / "oauth2-proxy"


@contextmanager
def running(alpha: str, configuration: str, address: str, folder: Path) -> Generator[None]:
    """Runs it inside the block, ready for requests at `address`. `alpha`, `configuration`: the texts of its two files.

    `folder` gets the files and the log. The kernel ends the process with the thread that entered the block.
    """
    (folder / "alpha.yaml").write_text(alpha)
    (folder / "oauth2-proxy.cfg").write_text(configuration)
    options = ["--alpha-config", str(folder / "alpha.yaml"), "--config", str(folder / "oauth2-proxy.cfg")]
    log = folder / "oauth2-proxy.log"
    with log.open("wb") as output:
        process = subprocess.Popen(ends_with_parent([str(program()), *options]), stdout=output, stderr=output)

    def answers() -> bool:
        assert process.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(f"{address}/ping") as answer:
                return answer.status == 200
        except (URLError, ConnectionError):
            return False

    try:
        wait_for(answers, why=log.read_text)
        yield
    finally:
        process.terminate()
        process.wait(STOP_TIMEOUT_S)


if __name__ == "__main__":
    program()
