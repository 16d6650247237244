"""What a migration would do to a database, and which way back it leaves: decided before anything changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Collection

    from wakeboard.store.schema_files import ConcurrentIndex, Migration

FIRST_RELEASE: Final = "0.1.0"  # the default of installation.min_code_version

Functions = Literal["written", "unchanged", "kept"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationPlan:
    """What `migrate` would do.

    `version`: the newest migration in place; 0: there is no schema. `pending`: the migrations that it would apply.
    `locks`: the existing tables that these lock. `functions`: the SQL functions are `written`, are `unchanged`, or
    those in place are newer than this release and are `kept`. `indexes`: those of existing tables that it builds
    concurrently, because they are of a pending migration, missing or not valid. `oldest_release`: the oldest release
    that can use the schema, now and `oldest_release_afterwards`.
    """

    version: int
    pending: tuple[str, ...]
    locks: tuple[str, ...]
    functions: Functions
    indexes: tuple[str, ...]
    oldest_release: str
    oldest_release_afterwards: str

    @property
    def changes_nothing(self) -> bool:
        """Whether the schema is that of this release or a newer one."""
        return not self.pending and self.functions != "written" and not self.indexes

    def sentences(self) -> list[str]:
        """What it does, and what leads back."""
        if self.changes_nothing:
            newer = "; its SQL functions are newer than this release, and stay" if self.functions == "kept" else ""
            return [f"nothing to do: the schema is at migration {self.version}{newer}."]
        found = [f"it creates the schema with {len(self.pending)} migrations."] if not self.version else []
        if self.version and self.pending:
            tables = f"; for a moment it locks {', '.join(self.locks)}" if self.locks else "; it locks no table in use"
            found.append(f"the schema is at migration {self.version}; it applies {', '.join(self.pending)}{tables}.")
        if self.functions == "written" and self.version:
            found.append("it replaces the SQL functions by those of this release.")
        if self.indexes:
            found.append(
                f"at the end it builds {', '.join(self.indexes)} (CREATE INDEX CONCURRENTLY): no statement waits for"
                " that, and it waits for transactions that are open then."
            )
        return found + (self._way_back() if self.version and (self.pending or self.functions == "written") else [])

    def _way_back(self) -> list[str]:
        oldest = self.oldest_release_afterwards
        if oldest != self.oldest_release:
            stop = f"releases before {oldest} stop working with this database at once"
            return [f"IT CANNOT BE UNDONE: {stop}, and only a backup leads back to them."]
        work = f"releases since {oldest} work with the newer schema"
        return [f"it cannot be undone, and need not be: {work}, so the way back is to start the former release."]


def make_plan(
    migrations: Collection[Migration],
    done: Collection[int],
    functions: Functions,
    oldest_release: str,
    unusable: Collection[ConcurrentIndex] = (),
) -> MigrationPlan:
    """The plan for a database in which the migrations `done` were applied and the indexes `unusable` are not usable."""
    pending = [one for one in migrations if one.version not in done]
    raised = [one.oldest_release for one in pending if one.oldest_release]
    return MigrationPlan(
        version=max(done, default=0),
        pending=tuple(one.name for one in pending),
        locks=tuple(sorted(frozenset[str]().union(*(one.locks for one in pending)))) if done else (),
        functions=functions,
        indexes=tuple(one.name for one in unusable),
        oldest_release=oldest_release,
        oldest_release_afterwards=raised[-1] if raised else oldest_release,
    )
