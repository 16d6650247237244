"""The files that make up the schema of this release: the migrations, and the SQL functions."""

from __future__ import annotations

import hashlib
import re
import textwrap
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.resources.abc import Traversable


# What roles may do besides calling functions: the parts that read every table, the columns of job_runs that an INSERT
# of the part client may set, and the columns of job_definitions that the part scheduler may set, or only read. It reads
# no payload, because a cluster's and a folder's schedules have theirs in the same column.
READERS: Final = ("operator", "viewer")
INSERT_COLUMNS: Final = ("job_type", "payload", "queue", "priority", "run_at", "max_attempts")
SCHEDULE_NAMES: Final = ("namespace", "name")
SCHEDULE_COLUMNS: Final = (
    *("job_type", "payload", "queue", "priority", "schedule", "time_zone", "dst_gap", "dst_overlap", "jitter_s"),
    *("concurrency_policy", "limit_key", "catch_up", "catch_up_limit", "starting_deadline_s", "suspend_after_dead"),
    *("starts_at", "ends_at", "max_attempts", "backoff_strategy", "backoff_base_s", "backoff_cap_s", "timeout_s"),
    *("suspended", "expect_success_within_s", "alert_after_missed"),
)
SCHEDULE_FACTS: Final = ("id", "source", "removed_at", "schedule_error")

# Each function gets it, except those of triggers: they run with the path of the statement, and name the schema of all
# they use.
SEARCH_PATH: Final = "set search_path = pg_catalog, wakeboard, pg_temp"

_COMMENT: Final = re.compile(r"--[^\n]*")
_DECLARED: Final = re.compile(
    r"^(create|drop) (?:unique )?(table|view|index|type|domain) (?:concurrently )?(?:if (?:not )?exists )?(\w+)"
    r"""|\b(drop )?constraint (?:(\w+)|"([^"]+)")""",
    re.MULTILINE,
)
_CONCURRENT_INDEX: Final = re.compile(
    r"^create (?:unique )?index concurrently (?P<name>\w+) on wakeboard\.(?P<table>\w+) [^;]*;\n?", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class ConcurrentIndex:
    """An index of a table that may be large: `migrate` builds it outside of its transaction, after all else."""

    name: str
    table: str
    text: str


@dataclass(frozen=True, slots=True)
class Migration:
    """One file of `migrations/`."""

    version: int
    name: str
    text: str

    @property
    def concurrent_indexes(self) -> tuple[ConcurrentIndex, ...]:
        """Its statements CREATE INDEX CONCURRENTLY."""
        found = _CONCURRENT_INDEX.finditer(self.text)
        return tuple(ConcurrentIndex(one["name"], one["table"], one[0].rstrip(";\n")) for one in found)

    def transaction_text(self, *, new_schema: bool) -> str:
        """What runs in the transaction. The tables of a new schema are empty: all their indexes are built there."""
        if new_schema:
            return self.text.replace(" index concurrently ", " index ")
        return _CONCURRENT_INDEX.sub("", self.text)

    @property
    def locks(self) -> frozenset[str]:
        """The existing tables that it changes, from its line "-- locks: a, b"."""
        found = re.search(r"^-- locks: (.+)$", self.text, re.MULTILINE)
        return frozenset(found[1].split(", ")) if found else frozenset()

    @property
    def oldest_release(self) -> str | None:
        """The oldest release that can use the schema after it, if it raises installation.min_code_version."""
        found = re.search(r"\bset min_code_version = '([^']+)'", self.text)
        return found[1] if found else None


@dataclass(frozen=True, slots=True)
class Trigger:
    """A trigger, in the file of its function. As its text locks the table, it is executed only if it is missing."""

    name: str
    table: str
    text: str


@dataclass(frozen=True, slots=True)
class SqlFunction:
    """One file of a folder `sql/`, with its search_path. `roles`: parts that may call it (none: internal).

    `description`: its head comment.
    """

    name: str
    text: str
    roles: frozenset[str]
    description: str
    trigger: Trigger | None = None

    @property
    def body(self) -> str:
        """The text between its dollar signs, as Postgres stores it."""
        return self.text.split("$$")[1]

    @property
    def argument_types(self) -> list[str]:
        """The types of its arguments, as they are written, without those of its results."""
        found = re.search(r"\((.*?)\)\s*(?:returns|language) ", self._head, re.DOTALL)
        arguments = re.sub(r"'[^']*'|--.*", "", found[1]) if found else ""
        return re.findall(r"(?:^|,)\s*(?:inout |(?!out ))\w+ ([\w.]+(?: precision)?(?:\[\])?)", arguments)

    @property
    def result_columns(self) -> list[str]:
        """The names of the columns of the table that it returns; none if it returns something else."""
        found = re.search(r"\breturns table \((.*?)\)\s*language ", self._head, re.DOTALL)
        return re.findall(r"(?:^|,)\s*(\w+) ", found[1]) if found else []

    @property
    def types(self) -> frozenset[str]:
        """The types of its arguments and results, as they are written."""
        table = re.search(r"\breturns table \((.*?)\)\s*language ", self._head, re.DOTALL)
        columns = re.findall(
            r"(?:^|,)\s*\w+ ([\w.]+(?: precision)?(?:\[\])?)", re.sub(r"--.*", "", table[1]) if table else ""
        )
        result = re.search(r"\breturns (?:setof )?(?!table \()([\w.]+(?: precision)?(?:\[\])?)", self._head)
        return frozenset([*self.argument_types, *columns, *(result.groups() if result else ())])

    @property
    def attributes(self) -> frozenset[str]:
        """Those of "immutable", "stable", "strict" and "security definer" that it has."""
        return frozenset(re.findall(r"\b(immutable|stable|strict|security definer)\b", self._options))

    @property
    def settings(self) -> list[str]:
        """Its settings as Postgres stores them, but in lower case: ["lock_timeout=2s", …], sorted."""
        found = re.findall(r"\bset (\w+) = (.+?)\s*(?=\bset |--|$)", self._options, re.MULTILINE)
        stored = {name: value.strip("'") or '""' for name, value in found}  # an empty list
        return sorted(f"{name}={value}".lower() for name, value in stored.items())

    @property
    def _head(self) -> str:
        return self.text.split("$$")[0].partition("create or replace function")[2]

    @property
    def _options(self) -> str:
        return self._head[self._head.rindex("language ") :]


@cache
def migrations() -> tuple[Migration, ...]:
    """All migrations, oldest first."""
    found = _sql_files([files("wakeboard.store").joinpath("migrations")])
    return tuple(Migration(int(file.name[:4]), file.name[5:-4], file.read_text("utf-8")) for file in found)


@cache
def sql_functions() -> tuple[SqlFunction, ...]:
    """All SQL functions, by name: the files of the folder `sql/` of each feature.

    A function may have branches: the files of a folder of its name.
    """
    folders = [feature.joinpath("sql") for feature in files("wakeboard").iterdir() if feature.is_dir()]
    found = [(file, *(folder.joinpath(file.name[:-4]) for folder in folders)) for file in _sql_files(folders)]
    return tuple(
        _sql_function(file.name[:-4], _with_branches(file.read_text("utf-8"), _sql_files(list(parts))))
        for file, *parts in found
    )


@cache
def declared_objects() -> frozenset[tuple[str, str]]:
    """What all migrations create: ("table", "job_runs"), …; also views, indexes, types and named constraints."""
    objects = set[tuple[str, str]]()
    for migration in migrations():
        for verb, kind, name, drop, constraint, quoted in _DECLARED.findall(_COMMENT.sub("", migration.text)):
            dropped = drop or verb == "drop"
            (objects.discard if dropped else objects.add)(
                (kind or "constraint", quoted or (name or constraint).lower())
            )
    return frozenset(objects)


def concurrent_indexes(among: Sequence[Migration]) -> tuple[ConcurrentIndex, ...]:
    """The indexes that `migrate` builds outside of its transaction, without those that a later migration drops."""
    indexes = dict[str, ConcurrentIndex]()
    for migration in among:
        for verb, kind, name, *_ in _DECLARED.findall(_COMMENT.sub("", migration.text)):
            if (verb, kind) == ("drop", "index"):
                indexes.pop(name, None)
        indexes |= {one.name: one for one in migration.concurrent_indexes}
    return tuple(indexes.values())


def functions_hash() -> str:
    """Identifies the texts of the functions of this release, or of an edited checkout."""
    texts = (text for one in sql_functions() for text in (one.text, one.trigger.text if one.trigger else ""))
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def functions_revision() -> int:
    """The revision of the functions, which orders two checkouts of one release. `make fix` increments it."""
    return int(files("wakeboard.store").joinpath("REVISION").read_text("utf-8").split()[0])


def _sql_function(name: str, text: str) -> SqlFunction:
    head, _, description = text.partition("\n\n")[0].partition("\n")
    if not re.match(r"-- for: \w|-- internal \(\w", head):
        raise ValueError(f"{name}.sql must begin with '-- for: <roles>' or '-- internal (<callers>)'")
    roles = re.findall(r"\w+", head.removeprefix("-- for: ")) if head.startswith("-- for: ") else ()
    function, begin, end = text.partition("create or replace trigger ")
    if "returns trigger" not in function:
        function = function.replace("\nas $$\n", f"\n{SEARCH_PATH}\nas $$\n", 1)
    trigger = re.match(r"(\w+) .*? on wakeboard\.(\w+)", end, re.DOTALL)
    return SqlFunction(
        name,
        function,
        frozenset(roles),
        re.sub(r"^-- ?", "", description, flags=re.MULTILINE),
        Trigger(trigger[1], trigger[2], begin + end) if trigger else None,
    )


def _with_branches(text: str, files: Sequence[Traversable]) -> str:
    """The text of a function, with its branches in the places of <heads>, <branches> and <names>.

    A branch begins with comments "- NAME: what it does", for one name or several, and an empty line.
    """
    heads, branches, known = "", "", list[str]()
    for file in files:
        head, _, body = file.read_text("utf-8").partition("\n\n")
        names = re.findall(r"^-- - (\w+): ", head, re.MULTILINE)
        heads += head + "\n"
        branches += f"  when {', '.join(map(repr, names))} then\n" + textwrap.indent(body, "    ")
        known += names
    listed = " or ".join([", ".join(known[:-1]), *known[-1:]])
    return text.replace("-- <heads>\n", heads).replace("  <branches>\n", branches).replace("<names>", listed)


def _sql_files(folders: list[Traversable]) -> list[Traversable]:
    """The SQL files of these folders, by name."""
    found = (file for folder in folders if folder.is_dir() for file in folder.iterdir())
    return sorted((file for file in found if file.name.endswith(".sql")), key=lambda file: file.name)
