"""The database roles of an installation, and the SQL with which a database administrator creates them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final, LiteralString

from psycopg import sql
from psycopg.rows import tuple_row

from wakeboard.errors import WakeboardError
from wakeboard.store.connection import connect, describe_connection
from wakeboard.store.statements import read

_USED_BY: Final = {
    "operator": "the operator, the board, and commands of administrators",
    "worker": "workers",
    "client": "applications that enqueue",
    "viewer": "the board, users and dashboards, which only read",
    "scaler": "an autoscaler, which may only call `backlog`",
    "scheduler": "applications that create schedules",
}
_HEAD: Final = (
    "-- Run this in wakeboard's database, as a superuser or with CREATEROLE. Roles that exist stay as they are.\n"
    "-- Set the passwords as your policy says. `wakeboard migrate` grants the rights; a dump has them."
)

# A name that the server does not know any more has no rights. A superuser creates no role for itself.
_INSTALLED: LiteralString = """
select (select rolname::text from pg_roles where oid = nspowner and not rolsuper) as owner,
       (select coalesce(jsonb_object_agg(part.key, part.value), '{}')
          from wakeboard.installation, jsonb_each_text(roles) as part
         where part.value in (select rolname from pg_roles)) as roles
  from pg_namespace where nspname = 'wakeboard'
"""


@dataclass(frozen=True, slots=True)
class Roles:
    """The database roles that may call SQL functions, besides the owner. None: the part has no role."""

    operator: str | None = None
    worker: str | None = None
    client: str | None = None
    viewer: str | None = None
    scaler: str | None = None
    scheduler: str | None = None

    def named(self) -> dict[str, str]:
        """{"worker": "<role name>", …} for the roles in use."""
        return {role: name for role, name in asdict(self).items() if name}


async def installed_roles(dsn: str) -> tuple[str | None, Roles]:
    """The owner of the schema, None if a superuser owns it, and the roles of the parts.

    Raises DatabaseUnavailable, WakeboardError (the database has no installation).
    """
    async with await connect(dsn, name="wakeboard migrate") as conn:
        if (await read(conn, tuple_row, "select to_regclass('wakeboard.installation') is null"))[0][0]:
            raise WakeboardError(
                f"no roles are set, and {describe_connection(conn)} has no installation that has some: set"
                " WAKEBOARD_WORKER_ROLE or another role."
            )
        owner, roles = (await read(conn, tuple_row, _INSTALLED))[0]
        return owner, Roles(**roles)


def create_roles(roles: Roles, owner: str | None = None) -> str:
    """SQL for a DBA: the owner of the schema, and the roles to which `migrate` grants rights, without passwords.

    It can be run twice, by any client.
    """
    uses: dict[str, list[str]] = {}  # of each role: one may have several
    if owner is not None:
        uses[owner] = ["owns the schema, and is only for `wakeboard migrate`"]
    for part, name in roles.named().items():
        uses.setdefault(name, []).append(_USED_BY[part])
    lines = [f"{_create_role(name)}  -- {'; '.join(its)}" for name, its in uses.items()]
    if owner is not None:
        grant = "execute format('grant create on database %I to %I', current_database(), {})"
        lines.insert(1, _block(sql.SQL(grant).format(sql.Literal(owner)).as_string()))
    return "\n".join((_HEAD, *lines))


def _create_role(name: str) -> str:
    return _block(f"create role {sql.Identifier(name).as_string()} login; exception when duplicate_object then null")


def _block(statements: str) -> str:
    return sql.SQL("do {};").format(sql.Literal(f"begin {statements}; end")).as_string()
