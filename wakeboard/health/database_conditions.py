"""The conditions of health of the database: server, settings, schema, rights, clocks, restores. See `conditions.py`."""

from __future__ import annotations

from datetime import timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Final

from wakeboard.health.problems import REGISTERED, HealthCondition, Metric, Problem
from wakeboard.restores.rules import change_sentence
from wakeboard.text.humanize import counted, lasted
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wakeboard.health.problems import Severity
    from wakeboard.health.queries.facts import Health
    from wakeboard.health.queries.server import RoleLogin

MAX_CLOCK_SKEW: Final = timedelta(seconds=5)  # a drain claims runs that are due within 15 s
TRANSACTION_AFTER: Final = timedelta(minutes=10)
OLDEST_POSTGRES: Final = 15
CONNECTIONS_IN_USE: Final = 0.9  # of those that ordinary roles may have
LITTLE_RUNS_BELOW_MS: Final = 50  # of a timeout, on a busy server
READ_ONLY: Final = "default_transaction_read_only"
WAKES_WITHIN: Final = timedelta(seconds=90)  # a worker, which a CronJob wakes each minute
SESSIONS_OF_A_WORKER: Final = 3  # at least, while it works
READS_ONLY: Final = {"viewer", "scaler"}  # parts of the installation
BLOCKS_VACUUM: Final = "prevents vacuum from removing dead rows"
MAX_NAMES: Final = 5  # in a sentence


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(one_line, names[:MAX_NAMES]))
    return shown if len(names) <= MAX_NAMES else f"{shown} and {len(names) - MAX_NAMES} more"


@HealthCondition("database", "bad", right=lambda health: f"PostgreSQL {health.server.major}.")
def servers_that_cannot_serve(health: Health) -> Iterator[Problem]:
    """Connect to a primary of PostgreSQL 15 or later, and a database with the encoding UTF8."""
    server = health.server
    if server.replica:
        yield Problem("The server is a read-only replica.", "Connect to the primary.")
    if server.major < OLDEST_POSTGRES:
        yield Problem(f"The server is PostgreSQL {server.major}.", f"Upgrade to PostgreSQL {OLDEST_POSTGRES} or later.")
    if server.encoding != "UTF8":
        text = f"The encoding is {server.encoding}, which cannot represent every text."
        yield Problem(text, "Use a database that was created with `encoding 'UTF8'`.")
    if server.connections > CONNECTIONS_IN_USE * server.max_connections:
        text = f"{server.connections} of {server.max_connections} connections are in use."
        severity = "warn" if server.connections < server.max_connections else "bad"
        yield Problem(text, "Close some, raise max_connections, or use a pooler.", severity=severity)
    if server.database_limit is not None and server.of_database >= server.database_limit:
        text = (
            f"This database has {counted(server.of_database, 'connection')}, and its limit is {server.database_limit}."
        )
        yield Problem(text, "Close some, or use `alter database` with CONNECTION LIMIT -1.")
    for name, problem in server.full_tablespaces.items():
        text = f"The disk of the server is full, for the tablespace {one_line(name)}: {one_line(problem)}."
        yield Problem(text, "Free space on it.")


@HealthCondition("logins", "bad")
def roles_that_cannot_log_in(health: Health) -> Iterator[Problem]:
    """Use `alter role`: LOGIN, VALID UNTIL 'infinity', CONNECTION LIMIT -1; or grant CONNECT on the database.

    Revoke one that no process uses: `wakeboard migrate --revoke-role PART`.
    """
    for role, logins in _by_role(health):
        refused = [_refused(each) for each in logins]
        for login, problem in zip(logins, refused, strict=True) if all(refused) else ():
            clause, remedy, severity = problem or ("", "", "bad")
            member = f", a member of {one_line(role)}," if login.name not in {None, role} else ""
            name = f"{' and '.join(login.parts)}'s role {one_line(login.name or role)}"
            yield Problem(f"The {name}{member} {clause}.", remedy, severity=severity)
        if not all(refused) and _no_member_works(health, logins):
            members = _listed([each.name or "" for each in logins])
            text = f"The worker's role {one_line(role)} may not log in, and no member of it is connected: {members}."
            yield Problem(text, "Use `alter role` with LOGIN, for that role or for the member that the workers use.")


def _no_member_works(health: Health, logins: Sequence[RoleLogin]) -> bool:
    """Whether runs wait for longer than a worker takes to wake, and no member of the worker's role has a session.

    Other members than that of the workers, such as a person, may log in.
    """
    waits = any(each.oldest < health.now - WAKES_WITHIN for each in health.due if not each.paused)
    return waits and all(
        "worker" in each.parts and each.name not in {None, each.role} and not each.sessions for each in logins
    )


def _by_role(health: Health) -> Iterator[tuple[str, list[RoleLogin]]]:
    """The logins of each role of the installation. Which of several is in use is not known here."""
    return ((role, list(logins)) for role, logins in groupby(health.server.logins, key=lambda login: login.role))


def _refused(login: RoleLogin) -> tuple[str, str, Severity] | None:
    """A clause that says why the server refuses the next login, what to do, how bad it is; None: it does not refuse it.

    A limit that is used up is bad only if it leaves too little to work with. Otherwise the pool may fit it exactly.
    """
    limit, sessions = login.connection_limit, login.sessions
    if login.name is None:
        return "may not log in, nor may a member of it", "Use `alter role` with LOGIN.", "bad"
    if login.expired:
        return "has a password that is valid no longer", "Use `alter role` with VALID UNTIL 'infinity'.", "bad"
    if not login.may_connect:
        return "has no right to connect to this database", "Grant it CONNECT on the database.", "bad"
    if limit is not None and sessions >= limit:
        clause = f"has {counted(sessions, 'session')}, and its connection limit is {limit}"
        remedy = "Use `alter role` with CONNECTION LIMIT -1, or end sessions that no process needs."
        return clause, remedy, "bad" if limit < (SESSIONS_OF_A_WORKER if "worker" in login.parts else 1) else "warn"
    return None


@HealthCondition("settings", "warn")
def unexpected_settings(health: Health) -> Iterator[Problem]:
    """Use `alter role` to set them to the Postgres defaults for wakeboard's roles."""
    here = health.server.settings
    yield from _of_settings(here, "")
    for _, logins in _by_role(health):
        for login in logins if all(each.settings for each in logins) else ():
            others = {name: value for name, value in login.settings.items() if here.get(name) != value}
            if READS_ONLY.issuperset(login.parts):
                others.pop(READ_ONLY, None)
            yield from _of_settings(others, f" for the role {one_line(login.name or login.role)}")


def _of_settings(settings: Mapping[str, str], of_role: str) -> Iterator[Problem]:
    """`settings`: unexpected ones of this session, or those that are set for a role."""
    timeouts = sorted(name for name in settings if name.endswith("_timeout"))
    odd = sorted(settings.keys() - timeouts)
    if READ_ONLY in odd:
        text = f"{READ_ONLY} is on{of_role}, so wakeboard cannot write."
        yield Problem(text, "Turn it off for wakeboard's roles.", severity="bad")
    elif odd:
        names = ", ".join(f"{name} = {settings[name]}" for name in odd)
        yield Problem(f"Each statement sets {names}{of_role} to the default, which takes three more round trips.")
    if timeouts:
        names = ", ".join(f"{name} = {settings[name]}" for name in timeouts)
        shortest = min(int(settings[name].removesuffix("ms")) for name in timeouts)
        text = f"An administrator has set {names}{of_role}, which stops statements and sessions that work."
        remedy = "Use `alter role` to give wakeboard's roles at least 10 s, or 0."
        yield Problem(text, remedy, severity="bad" if shortest < LITTLE_RUNS_BELOW_MS else "warn")


def _schema(health: Health) -> str:
    return f"Migration {health.installed.schema_version}, SQL functions of {health.installed.functions_by}"


@HealthCondition("schema", "bad", right=lambda health: f"{_schema(health)}.")
def functions_of_another_release(health: Health) -> Iterator[Problem | str]:
    """Run `wakeboard migrate`."""
    installed, local = health.installed, health.local
    if installed.functions_by != local.version:
        remedy = "Upgrade the older installation, then run `wakeboard migrate`."
        yield Problem(f"{_schema(health)}; this is {local.version}.", remedy, severity="warn")
    elif installed.functions_revision > local.functions_revision:
        text = f"{_schema(health)} that are newer than those of this release."
        yield Problem(text, "Upgrade this installation.", severity="warn")
    elif installed.functions_hash != local.functions_hash:
        yield f"{_schema(health)} that differ from those of this release."


PARTS: Final = "Tables, indexes, types, functions and triggers are those of this release."


@HealthCondition("objects", "bad", right=lambda health: PARTS if health.differences else "")
def missing_or_altered_parts_of_the_schema(health: Health) -> Iterator[Problem | str]:
    """Restore them from a backup, or run the statements that create them: see wakeboard/store/migrations."""
    if (lost := health.differences) and lost.others:
        yield f"The schema has changed: {_listed([*lost.others, *lost.restorable, *lost.indexes])}."
    elif lost and lost.restorable:
        yield Problem(
            f"The schema has changed: {_listed([*lost.restorable, *lost.indexes])}.",
            "Run `wakeboard migrate`, which restores it.",
        )
    elif lost and lost.indexes:
        text = f"All works, but slower than it could: {_listed(lost.indexes)}."
        yield Problem(text, "Run `wakeboard migrate`, which builds it beside all else.", severity="warn")


@HealthCondition(
    "rights", "bad", right=lambda health: "Each role has those of its parts." if health.differences else ""
)
def missing_rights(health: Health) -> Iterator[str]:
    """Run `wakeboard migrate`, which restores them."""
    for role, rights in (health.differences.rights if health.differences else {}).items():
        yield f"{role} may not {_listed(rights)}."


def _clocks(health: Health) -> str:
    ahead = health.local.clock_ahead
    return f"The database is {lasted(abs(ahead))} {'ahead of' if ahead > timedelta() else 'behind'} this machine."


@HealthCondition("clock", "warn", right=_clocks)
def clocks_that_differ(health: Health) -> Iterator[str]:
    """Synchronize both clocks; wakeboard uses the database's clock."""
    if abs(health.local.clock_ahead) > MAX_CLOCK_SKEW:
        yield _clocks(health)


def _route(health: Health) -> str:
    # Workers poll in any case. Their settings are not known here.
    polls = health.local.route == "transaction pooler" and health.local.listen
    text = "Direct" if health.local.route == "direct" else f"Through a {health.local.route}"
    return f"{text}, which does not support LISTEN: workers poll." if polls else f"{text}."


@HealthCondition("connection", "bad", right=_route)
def poolers_that_lose_prepared_statements(health: Health) -> Iterator[str]:
    """Set WAKEBOARD_PREPARED_STATEMENTS=false, or connect directly."""
    if health.local.route == "transaction pooler" and health.local.prepared_statements:
        yield "Through a transaction pooler, which does not support prepared statements."


@HealthCondition("durability", "warn")
def commits_that_can_be_lost(health: Health) -> Iterator[Problem | str]:
    """Turn fsync, full_page_writes and synchronous_commit on."""
    storage = health.storage
    if not storage.durable:
        yield "Commits can be lost when the server crashes."
    elif storage.replicas and not health.commits.wait_for_standby:
        text = f"{counted(storage.replicas, 'replica')}, all asynchronous: a failover can lose the latest commits."
        yield Problem(text, "Make one replica synchronous, or expect such runs to run again.")


def _reads(health: Health) -> str:
    replica = health.local.replica
    if replica is None or replica.problem:
        return ""
    if replica.is_primary:
        return "From the primary, which WAKEBOARD_READ_DSN names."
    return f"From a standby, {'an unknown time' if replica.lag is None else lasted(replica.lag)} behind."


@HealthCondition("reads", "warn", right=_reads)
def standbys_that_cannot_be_read(health: Health) -> Iterator[str]:
    """Bring the standby of WAKEBOARD_READ_DSN back, or name another. Until then reads are from the primary."""
    if (replica := health.local.replica) and replica.problem:
        yield f"WAKEBOARD_READ_DSN is not used: {one_line(replica.problem)}."


@HealthCondition("sequences", "bad")
def sequences_behind_their_tables(health: Health) -> Iterator[str]:
    """Set them as docs/moving.md says, before anything new is stored: logical replication does not copy sequences."""
    if behind := health.installed.sequences_behind:
        yield f"The next ids of {_listed(behind)} belong to rows that exist."


SERVER_CHANGES: Final = Metric(
    "wakeboard_unacknowledged_restores",
    "Times that the database may have gone back in time, which no administrator has acknowledged.",
    lambda health: len(health.server_changes),
)


@HealthCondition("restores", "bad", metric=SERVER_CHANGES, alert="databaseWentBack")
def databases_that_went_back_in_time(health: Health) -> Iterator[Problem]:
    """`wakeboard check --after-restore` says what may run twice and what to do, and acknowledges it."""
    for change in reversed(health.server_changes):
        yield Problem(change_sentence(change))


@HealthCondition("commits", "bad")
def commits_that_hang(health: Health) -> Iterator[Problem | str]:
    """Bring the standby back, or take it out of synchronous_standby_names and reload the server.

    Workers go on by themselves.
    """
    if why := health.commits.why_they_hang:
        yield f"Commits hang: {one_line(why)}."
    elif health.commits.are_unknown:
        remedy = "Let a superuser grant it execute on the function pg_logical_emit_message, or pg_read_all_stats."
        yield Problem("This role cannot see whether commits hang.", remedy, severity="note")


@HealthCondition("locks", "bad")
def transactions_that_lock_tables(health: Health) -> Iterator[str]:
    """End them (`select pg_terminate_backend(PID)`), or wait for their end. All else goes on by itself then."""
    if health.lock_holders:
        from wakeboard.store.migration_locks import named_sessions  # the kubectl plugin has no driver

        yield f"Statements wait for locks, which are kept by {one_line(named_sessions(health.lock_holders))}"


@HealthCondition("vacuum", "warn")
def transactions_that_hold_vacuum_back(health: Health) -> Iterator[Problem | str]:
    """End it, and set idle_in_transaction_session_timeout."""
    storage = health.storage
    if not storage.autovacuum:
        yield Problem("Autovacuum is off.", "Turn on autovacuum and track_counts.", severity="bad")
    if storage.oldest_prepared is not None and storage.oldest_prepared > TRANSACTION_AFTER:
        text = f"A prepared transaction is {lasted(storage.oldest_prepared)} old and {BLOCKS_VACUUM}."
        yield Problem(text, "Commit it or roll it back: see pg_prepared_xacts.")
    for slot in storage.slots_holding_back:
        text = f"The replication slot {one_line(slot)} is inactive and {BLOCKS_VACUUM}."
        yield Problem(text, "Connect its consumer or drop the slot.")
    if storage.oldest_transaction is not None and storage.oldest_transaction > TRANSACTION_AFTER:
        application = one_line(storage.oldest_transaction_of or "an unknown application")
        age = lasted(storage.oldest_transaction)
        yield f"A transaction of {application} has been open for {age} and {BLOCKS_VACUUM}."
    elif storage.blind_role:
        text = f"The role {one_line(storage.blind_role)} cannot see how long other roles' transactions have been open."
        yield Problem(text, "To see it, let a superuser grant it pg_read_all_stats.", severity="note")


OF_THE_DATABASE: Final = tuple(REGISTERED)
