"""Creates .venv with nothing but python3: `python3 tools/bootstrap.py demo|patterns|site|dev|test-packages`.

demo     what `wakeboard up` needs
patterns that, and what examples/patterns need
site     what builds the documentation site
dev      that, and what tests and checks need
test-packages  Debian packages that tests need: PostgreSQL 15, Patroni, Chromium and others (if not root, it prints how)

Everything is installed from locks/, by hash, from whatever index this machine is set up for. Only the standard library
is used, and only syntax that an older Python can read, so that it can say that it is too old.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

OLDEST_MINOR = 11  # Python 3.11
ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
OUR_PIP = [str(PYTHON), "-m", "pip"]
BUILD_LOCK = ROOT / "locks" / "build.txt"
LOCKS = {
    "demo": ROOT / "locks" / "local.txt",
    "patterns": ROOT / "locks" / "patterns.txt",
    "site": ROOT / "locks" / "site.txt",
    "dev": ROOT / "locks" / "dev.txt",
}
TEST_PACKAGES = {
    "postgresql-15": "/usr/lib/postgresql/15/bin/postgres",
    "patroni": "/usr/bin/patroni",
    "pgbackrest": "/usr/bin/pgbackrest",
    "pgbouncer": "/usr/sbin/pgbouncer",
    "cron": "/usr/bin/crontab",
    "chromium-headless-shell": "/usr/bin/chromium-headless-shell",
    "fonts-dejavu-core": "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
}


def main(what: str) -> None:
    """Runs one of the five. The stamp file marks .venv as ready for make."""
    if what == "test-packages":
        install_test_packages()
        return
    use_a_new_enough_python()
    began = time.monotonic()
    make_venv()
    report(f"Installing what {LOCKS[what].relative_to(ROOT)} names.")
    install("--require-hashes", "-r", str(BUILD_LOCK))
    install("--require-hashes", "-r", str(LOCKS[what]))
    install("--no-deps", "--no-build-isolation", "--editable", str(ROOT))
    (VENV / (what + ".ready")).touch()
    for less in {"dev": ["demo", "patterns", "site"], "patterns": ["demo"]}.get(what, []):
        (VENV / (less + ".ready")).touch()
    report(f"Ready after {time.monotonic() - began:.0f} s.")


def use_a_new_enough_python() -> None:
    """Re-executes in a newer Python of this machine if this one is too old, or exits with what to install."""
    if sys.version_info >= (3, OLDEST_MINOR):
        return
    for minor in range(OLDEST_MINOR + 8, OLDEST_MINOR - 1, -1):
        newer = shutil.which(f"python3.{minor}")
        if newer:
            os.execv(newer, [newer, *sys.argv])  # noqa: S606 - no shell wanted
    give_up(
        "This is Python {}.{}; wakeboard needs 3.11 or newer.".format(*sys.version_info), "python3.11 python3.11-venv"
    )


def make_venv() -> None:
    """Keeps a .venv that works; else makes one by the first way that this machine offers."""
    new_enough = works([str(PYTHON), "-c", "import sys; sys.exit(sys.version_info < (3, 11))"])
    if new_enough and (find_uv() or works([*OUR_PIP, "--version"])):
        return
    report("Making .venv with Python {}.{}.{}.".format(*sys.version_info))
    if works(venv_command()):
        return
    if can_install_packages():
        apt_install(["python3-venv"])
        if works(venv_command()):
            return
    for way in other_ways():
        if works(way):
            return
    shutil.rmtree(str(VENV), ignore_errors=True)  # half a venv would be taken for one
    give_up("This Python cannot make virtual environments (it has no ensurepip).", "python3-venv")


def venv_command(*options: str) -> list[str]:
    """Makes .venv, in the place of a half-made one."""
    return [sys.executable, "-m", "venv", "--clear", *options, str(VENV)]


def other_ways() -> list[list[str]]:
    """How a venv can be had without ensurepip; one without a pip is enough where uv or another pip installs into it."""
    ways: list[list[str]] = []
    if importlib.util.find_spec("virtualenv"):
        ways.append([sys.executable, "-m", "virtualenv", "--quiet", "--clear", str(VENV)])
    if shutil.which("uv") or importlib.util.find_spec("pip"):
        ways.append(venv_command("--without-pip"))
    return ways


def find_uv() -> str | None:
    """The uv of the lock, or the machine's."""
    ours = VENV / "bin" / "uv"
    return str(ours) if ours.exists() else shutil.which("uv")


def install(*what: str) -> None:
    """Installs into .venv, bytecode included, by uv, or by pip if uv is not there or cannot reach the index of pip."""
    uv = find_uv()
    if uv and show_progress([uv, "pip", "install", "--compile-bytecode", "--python", str(PYTHON), *what]):
        return
    pip = OUR_PIP if works([*OUR_PIP, "--version"]) else [sys.executable, "-m", "pip", "--python", str(PYTHON)]
    if subprocess.call([*pip, "install", "--quiet", "--disable-pip-version-check", *what]):
        sys.exit("The packages could not be installed; see the output of pip above.")


def install_test_packages() -> None:
    """Installs what is missing if it can; in CI it must be there afterwards, elsewhere its tests are skipped."""
    missing = [package for package, program in TEST_PACKAGES.items() if not Path(program).exists()]
    if not missing:
        return
    if can_install_packages() and apt_install(missing):
        return
    message = "Not installed: {}. Tests that need them are skipped; to have them: sudo apt-get install {}"
    report(message.format(", ".join(missing), " ".join(missing)))
    if os.environ.get("CI"):
        sys.exit(1)


def can_install_packages() -> bool:
    """Whether this is Debian, or one of its children, and we are root."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def apt_install(packages: list[str]) -> bool:
    """Whether the packages could be installed; apt says what went wrong."""
    report("Installing the Debian packages {}.".format(" ".join(packages)))
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    apt = ["apt-get", "-qq", "-o=Dpkg::Use-Pty=0"]
    for words in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
        answer = subprocess.run([*apt, *words], env=environment, capture_output=True, text=True, check=False)
        if answer.returncode:
            report(answer.stderr.strip())
            return False
    return True


def works(command: list[str]) -> bool:
    """Whether the command exists and succeeds; what it says is not shown."""
    try:
        return subprocess.call(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0
    except OSError:
        return False


def show_progress(command: list[str]) -> bool:
    """Whether the command of uv succeeds. Prints what it downloads and how far it is, without the list of packages."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, encoding="utf-8") as process:
        for line in process.stderr or ():
            if line.split(" ")[0] in {"Resolved", "Downloading", "Prepared", "Installed", "Bytecode"}:
                report("  " + line.rstrip())
    return process.returncode == 0


def report(sentence: str) -> None:
    """Prints a progress message."""
    print(sentence, flush=True)


def give_up(sentence: str, packages: str) -> None:
    """Ends with what is wrong and what to type."""
    sys.exit(f"{sentence}\nOn Debian or Ubuntu type: sudo apt-get install {packages}\nthen make again.")


if __name__ == "__main__":
    main(sys.argv[1])
