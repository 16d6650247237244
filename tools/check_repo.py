"""Checks rules of this repository that no other tool knows.

Errors: a lock file that names a host, a word of tools/banned_words.txt, a badly named module, and decision records
without contiguous numbers or with another header than `# N. Title (YYYY-MM-DD)`, a part that the tree of the
architecture lacks, a version that no generator writes, a worker of clients/ that is no longer small, a wide line of
SQL, a function of SQL that is too long to read in one go, a file of another project that was changed, a public class
whose name another one has, and the name of a test that is too long to read. A long file is a warning.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tomllib
from itertools import groupby
from pathlib import Path

from tools.generated import GENERATED

ROOT = Path(__file__).resolve().parents[1]
BANNED = Path(__file__).with_name("banned_words.txt")
LONG_FILE = 500  # lines
WIDEST_SQL = 140  # characters
LONGEST_FUNCTION = 150  # lines of SQL
LONGEST_TEST_NAME = 12  # words
SOURCE = {".py", ".sql", ".sh"}
NOT_SCANNED = re.compile(
    r"(locks|sbom)/.*|CHANGELOG\.md|LICENSE|NOTICE|.*\.(json|sum|png|svg)"
    r"|docs/(benchmarks|reliability)\.md|tools/banned_words\.txt"
)
MODULE = re.compile(r"(__)?[a-z0-9]+(_[a-z0-9]+)*(__)?")
ENDINGS = re.compile(r"(?<=[a-z]{3})(ing|er|ed|e)$")
CLIENTS = {
    "clients/go": "clients/go/worker/*.go",
    "clients/typescript": "clients/typescript/src/[!i]*.ts",
}  # their workers, without the index and what is generated
LONGEST_CLIENT = 970  # lines of code, of which the logs of runs are a quarter
SQL_FUNCTION = re.compile(r"^create or replace function .*?^\$\$;", re.MULTILINE | re.DOTALL)
PRODUCT = re.compile(r"(wakeboard|worker|operator)/.*\.py")
PUBLIC_CLASS = re.compile(r"^class ([A-Z]\w*)", re.MULTILINE)
TEST = re.compile(r"^ *(?:async )?def test_(\w+)", re.MULTILINE)
NO_CODE = re.compile(r"/\*.*?\*/|^\s*//[^\n]*|^import \(.*?^\)|^import [^\n]*", re.MULTILINE | re.DOTALL)
VENDORED = ROOT / "wakeboard/board/static/vendor"
ARCHITECTURE = "docs/architecture.md"
IN_TREE = re.compile(r"(?:wakeboard/(?:store/)?)?(?!__init__)(\w+(?:/|\.py))")
IMAGE_WITH_VERSION = r"wakeboard/(?:operator|worker|worker-build|board|jobs):\d+\.\d"
NOT_STAMPED = re.compile(r"tests/|CHANGELOG\.md|.*\.(png|svg)")
DECISION_FILE = re.compile(r"(\d{4})-[a-z0-9-]+\.md")


def tracked_files() -> list[str]:
    """The paths that Git tracks or would add, relative to the root."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return sorted(name for name in names if (ROOT / name).is_file())


def lock_hosts(names: list[str]) -> list[str]:
    """Lock files must install from any configured index."""
    locks = [name for name in names if name.startswith("locks/")]
    return [f"{name} names a host; run: make lock" for name in locks if "://" in (ROOT / name).read_text()]


def read_banned_words(text: str) -> dict[str, str]:
    """The replacement of each banned word: lines `word -> say instead`."""
    return dict(re.findall(r"^([^#\n]+) -> (.+)$", text, re.MULTILINE))


def banned_words(file: str, text: str, banned: dict[str, str]) -> list[str]:
    """A finding for each line of `text` with a banned word. The parts of an identifier count as words."""
    pattern = re.compile(rf"(?<![a-z])({'|'.join(map(re.escape, banned))})(?![a-z])", re.IGNORECASE)
    return [
        f"{file}:{number}: '{found[0]}': say {banned[found[0].lower()]}"
        for number, line in enumerate(text.splitlines(), 1)
        for found in pattern.finditer(line)
    ]


def badly_named_modules(names: list[str]) -> list[str]:
    """Modules are snake_case. Two modules of a package must not differ only by their ending (`claim`, `claiming`)."""
    modules = sorted(Path(name) for name in names if name.endswith(".py"))
    findings = [f"{module}: use snake_case" for module in modules if not MODULE.fullmatch(module.stem)]
    stems = sorted((str(module.parent), ENDINGS.sub("", module.stem), module.name) for module in modules)
    for (folder, _), group in groupby(stems, key=lambda each: each[:2]):
        alike = [name for _, _, name in group]
        if len(alike) > 1:
            findings.append(f"{folder}: the names {' and '.join(alike)} differ only by their ending")
    return findings


def decision_records(names: list[str]) -> list[str]:
    """Decisions are numbered from 0001 without gaps, and begin with `# N. Title (YYYY-MM-DD)`."""
    findings: list[str] = []
    records = [Path(name) for name in names if name.startswith("docs/decisions/") and Path(name).name != "README.md"]
    for number, record in enumerate(records, 1):
        found = DECISION_FILE.fullmatch(record.name)
        header = (ROOT / record).read_text(encoding="utf-8").partition("\n")[0]
        if not found or int(found[1]) != number:
            findings.append(f"{record}: expected number {number:04}")
        if not re.fullmatch(rf"# {number}\. .+ \(\d{{4}}-\d\d-\d\d\)", header):
            findings.append(f"{record}: begin it with '# {number}. Title (YYYY-MM-DD)'")
    return findings


def missing_in_tree(names: list[str]) -> list[str]:
    """The tree of docs/architecture.md names every folder at the top, and every part of wakeboard/ and its store."""
    tree = (ROOT / ARCHITECTURE).read_text(encoding="utf-8").partition("## The tree")[2].partition("## ")[0]
    wanted = {found[1] for name in names if (found := IN_TREE.match(name))}
    lacking = sorted(name for name in wanted if not any(word.startswith(name) for word in tree.split()))
    return [f"{ARCHITECTURE}: its tree lacks {name}" for name in lacking]


def lines_of_code(text: str) -> int:
    """Lines of Go or TypeScript that are neither blank, comments nor imports."""
    return sum(bool(line.strip()) for line in NO_CODE.sub("", text).splitlines())


def long_clients() -> list[str]:
    """The workers in other languages are examples: an author of a third one must be able to read them."""
    lengths = {
        folder: sum(
            lines_of_code(file.read_text(encoding="utf-8"))
            for file in ROOT.glob(sources)
            if str(file.relative_to(ROOT)) not in GENERATED
        )
        for folder, sources in CLIENTS.items()
    }
    return [
        f"{folder} has {length} lines of code; it may have {LONGEST_CLIENT}"
        for folder, length in lengths.items()
        if length > LONGEST_CLIENT
    ]


def long_files(names: list[str]) -> list[str]:
    """Source files that should probably be split."""
    sources = [name for name in names if Path(name).suffix in SOURCE]
    lengths = {name: len((ROOT / name).read_text(encoding="utf-8").splitlines()) for name in sources}
    return [f"warning: {name} has {length} lines" for name, length in lengths.items() if length > LONG_FILE]


def other_versions(names: list[str]) -> list[str]:
    """A file that names an image with its version gets the version from tools/stamp_version.py, unless it is a test."""
    named = [name for name in names if name not in GENERATED and not NOT_STAMPED.match(name)]
    return [
        f"{name} names an image with a version; add it to FILES in tools/stamp_version.py"
        for name in named
        if re.search(IMAGE_WITH_VERSION, (ROOT / name).read_text(encoding="utf-8", errors="replace"))
    ]


def wide_sql(names: list[str]) -> list[str]:
    """Lines of SQL files that are too wide to read beside another file."""
    return [
        f"{name}:{number}: at most {WIDEST_SQL} characters"
        for name in names
        if name.startswith("wakeboard/") and name.endswith(".sql")
        for number, line in enumerate((ROOT / name).read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > WIDEST_SQL
    ]


def classes_with_one_name(names: list[str]) -> list[str]:
    """A public name means one thing: two classes of the product do not share it."""
    owners: dict[str, list[str]] = {}
    for name in filter(PRODUCT.fullmatch, names):
        for found in PUBLIC_CLASS.findall((ROOT / name).read_text(encoding="utf-8")):
            owners.setdefault(found, []).append(name)
    return [f"{', '.join(files)}: each has a class {found}" for found, files in owners.items() if len(files) > 1]


def long_test_names(names: list[str]) -> list[str]:
    """The name of a test states a promise that is read at a glance."""
    return [
        f"{name}: test_{found} has more than {LONGEST_TEST_NAME} words"
        for name in names
        if name.startswith("tests/") and name.endswith(".py")
        for found in TEST.findall((ROOT / name).read_text(encoding="utf-8"))
        if found.count("_") >= LONGEST_TEST_NAME
    ]


def long_functions(names: list[str]) -> list[str]:
    """Functions of SQL are read in one go, except the one that is generated from the rules of a JobSchedule."""
    return [
        f"{name}: a function has {lines} lines; it may have {LONGEST_FUNCTION}"
        for name in names
        if name.startswith("wakeboard/") and name.endswith(".sql") and name not in GENERATED
        for text in SQL_FUNCTION.findall((ROOT / name).read_text(encoding="utf-8"))
        if (lines := text.count("\n") + 1) > LONGEST_FUNCTION
    ]


def vendored_files() -> list[str]:
    """Each file of another project is the one that vendor.toml names, and no other is beside it."""
    files = {each["name"]: each for each in tomllib.loads((VENDORED / "vendor.toml").read_text())["file"]}
    named = {"vendor.toml", *files, *(each["licence_file"] for each in files.values())}
    findings = [
        f"{VENDORED / name}: vendor.toml does not name it"
        for name in {path.name for path in VENDORED.iterdir()} - named
    ]
    for name, file in files.items():
        if hashlib.sha256((VENDORED / name).read_bytes()).hexdigest() != file["sha256"]:
            findings.append(
                f"{VENDORED / name} is not {file['path']} of {file['package']} {file['version']}: restore it"
            )
    return findings


def main() -> int:
    """Prints the findings. Returns 1 if there are more than warnings."""
    names = tracked_files()
    banned = read_banned_words(BANNED.read_text(encoding="utf-8"))
    errors = [*lock_hosts(names), *badly_named_modules(names), *decision_records(names)]
    errors += [*missing_in_tree(names), *long_clients(), *wide_sql(names), *vendored_files(), *other_versions(names)]
    errors += [*classes_with_one_name(names), *long_functions(names), *long_test_names(names)]
    for name in names:
        if not NOT_SCANNED.fullmatch(name):
            errors += banned_words(name, (ROOT / name).read_text(encoding="utf-8", errors="replace"), banned)
    for finding in errors + long_files(names):
        print(finding)
    return int(bool(errors))


if __name__ == "__main__":
    sys.exit(main())
