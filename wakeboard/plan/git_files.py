"""Reads the YAML files of a folder in a Git revision, without a checkout: `main:schedules/`, `HEAD~1:deploy`.

Git's own objects are read, so no attribute of the repository changes their content, and no hook runs. Links are
followed inside the revision, as in a folder.
"""

from __future__ import annotations

import os
import posixpath
import subprocess
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, NamedTuple

from wakeboard.declared.bounded_file import MAX_FILE_BYTES, Unreadable, decode
from wakeboard.errors import InvalidValue, WakeboardError
from wakeboard.text.sanitize import one_line
from wakeboard.text.similar_names import closest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_FILES: Final = 20_000  # of one revision
_TIMEOUT_S: Final = 60.0  # of one command
_LINK: Final = "120000"
# No command asks for a password, or fetches what a partial clone lacks.
_ENVIRONMENT: Final = {"GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}


class NoSuchPath(InvalidValue):
    """The revision has no such path."""


class _Entry(NamedTuple):
    path: str
    mode: str
    object_id: str
    size: int


def files_of_revision(text: str, suffixes: tuple[str, ...]) -> Iterator[tuple[Path, Callable[[], str]]]:
    """The files of REVISION:PATH with these endings, each with a function that returns its text: call each, in order.

    The function raises Unreadable. Raises InvalidValue for a revision and NoSuchPath for a path that does not exist,
    and WakeboardError if there is no repository.
    """
    revision, _, path = text.partition(":")
    tree = _tree_of(revision)
    inside = _inside(path)
    found = _git("rev-parse", "--verify", "--quiet", f"{tree}:{inside}")
    if found is None:
        raise NoSuchPath(
            f"{revision} has no path {path!r}. Write the path from the top of the repository, or ./PATH for one from"
            " the current folder."
        )
    entries = _entries(tree, inside, found, suffixes)
    if len(entries) > MAX_FILES:
        raise InvalidValue(f"{text} has more than {MAX_FILES:,} YAML files; name the folder with the schedules.")
    with subprocess.Popen(
        ["git", "cat-file", "--batch", "--follow-symlinks"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | _ENVIRONMENT,
    ) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        for entry in entries:
            yield Path(f"{revision}:{entry.path}"), partial(_text, reader.stdin, reader.stdout, tree, entry)
        reader.stdin.close()


def _tree_of(revision: str) -> str:
    """The root folder of a revision, as an object id, so that a revision that moves meanwhile changes nothing."""
    found = _run("rev-parse", "--git-dir")
    if found.returncode:
        why = one_line(os.fsdecode(found.stderr)).removeprefix("fatal: ")[:200]  # none, or one of another user
        raise InvalidValue(
            f"Git reads no repository in the current folder ({why}), so there is no revision {revision!r}. Go to the"
            " repository, or write the path of a folder."
        )
    tree = None if revision.startswith("-") else _git("rev-parse", "--verify", "--quiet", f"{revision}^{{tree}}")
    if tree is not None:
        return tree
    names = (_git("for-each-ref", "--format=%(refname:short)") or "").splitlines()
    nearest = closest(revision, names)
    advice = f"did you mean {nearest}?" if nearest else "write a branch, a tag or a commit."
    if _git("rev-parse", "--is-shallow-repository") == "true":
        advice += " This clone is shallow: fetch the commits that it lacks (`git fetch --unshallow`)."
    raise InvalidValue(f"{revision!r} is no revision of this repository; {advice}")


def _inside(path: str) -> str:
    """The path from the top of the repository. One that begins with ./ or ../ is relative to the current folder."""
    if path.startswith(("./", "../")) or path in {".", ".."}:
        path = posixpath.join(_git("rev-parse", "--show-prefix") or "", path)
    inside = posixpath.normpath(path or ".")
    if inside.startswith(("../", "/")) or inside == "..":
        raise InvalidValue(f"the path {path!r} leads out of the repository; write one inside of it.")
    return "" if inside == "." else inside


def _entries(tree: str, inside: str, found: str, suffixes: tuple[str, ...]) -> list[_Entry]:
    """The files of a folder in order, neither hidden ones nor those in hidden folders; or the one file."""
    is_file = _git("cat-file", "-t", found) == "blob"
    listed = _git("ls-tree", "-r", "-z", "-l", "--full-tree", tree, *(["--", inside] if inside else []))
    if listed is None:
        raise WakeboardError("Git cannot list the files of the revision; fetch what this clone lacks, then try again.")
    entries: list[_Entry] = []
    for line in filter(None, listed.split("\0")):
        head, _, path = line.partition("\t")
        parts = path.removeprefix(inside).strip("/").split("/")
        if is_file or (path.endswith(suffixes) and not any(part.startswith(".") for part in parts)):
            mode, kind, object_id, size = head.split()
            entries += [_Entry(path, mode, object_id, int(size) if size.isdigit() else 0)] if kind == "blob" else []
    return sorted(entries, key=lambda entry: entry.path.split("/"))


def _text(questions: IO[bytes], answers: IO[bytes], tree: str, entry: _Entry) -> str:
    if entry.mode != _LINK and entry.size > MAX_FILE_BYTES:
        return decode(bytes(MAX_FILE_BYTES + 1))  # raises, without reading it
    name = f"{tree}:{entry.path}" if entry.mode == _LINK else entry.object_id
    if "\n" in name:
        raise Unreadable(1, "the name of this link has a line break; rename it")
    questions.write(os.fsencode(name) + b"\n")
    questions.flush()
    kind, size = _answer(answers.readline())
    if kind == "missing":
        raise Unreadable(1, "this clone lacks the content of the file; fetch it (`git fetch --refetch`)")
    content = answers.read(min(size, MAX_FILE_BYTES + 1))
    rest = size - len(content) + 1
    while rest > 0 and (skipped := answers.read(min(rest, 1 << 20))):
        rest -= len(skipped)
    if kind != "blob":
        raise Unreadable(1, "this link leads to no file of the revision; replace or remove it")
    return decode(content)


def _answer(line: bytes) -> tuple[str, int]:
    """The kind and the size of what follows: `ID blob SIZE`, `dangling SIZE`, or `NAME missing` with nothing."""
    words = line.decode(errors="replace").split()
    if not words or words[-1] == "missing":
        return "missing", 0
    return words[-2], int(words[-1])


def _git(*words: str) -> str | None:
    """The output of a Git command; None: it failed."""
    ran = _run(*words)
    return os.fsdecode(ran.stdout).rstrip("\n") if ran.returncode == 0 else None


def _run(*words: str) -> subprocess.CompletedProcess[bytes]:
    """Runs a Git command. Raises WakeboardError if there is no Git."""
    try:
        return subprocess.run(
            ["git", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=os.environ | _ENVIRONMENT,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError:
        raise WakeboardError("Git is not installed, and reads revisions; install it, or write folders.") from None
    except subprocess.TimeoutExpired:
        raise WakeboardError(f"git {words[0]} did not end within {_TIMEOUT_S:.0f} s; try again.") from None
