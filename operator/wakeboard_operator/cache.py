"""The informer cache: the last observed state of each JobSchedule, in little memory. Ten thousand are common."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from wakeboard_operator.problems import FOREIGN
from wakeboard_operator.status_models import JobScheduleStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wakeboard_operator.event_budget import EventBudget
    from wakeboard_operator.problems import ScheduleProblem
    from wakeboard_operator.resources import Key, Resource


@dataclass(slots=True)
class CachedResource:
    """A resource without its spec, its status as text, and its problem, if it has one."""

    resource: Resource
    status_text: bytes
    problem: ScheduleProblem | None = None
    definition_id: int | None = None
    written_at: float = 0.0  # time.monotonic() of our last status write
    written: int | None = None  # the hash of the status after that write
    repairs: int = 0  # recent repairs by this operator
    event_budget: EventBudget | None = None
    conditions: tuple[tuple[str, str], ...] = ()  # (type, status), for the metrics

    @staticmethod
    def hash_of(found: Resource) -> int:
        """The hash of the status of a resource."""
        return hash(_text(found))

    def is_overwritten(self) -> bool:
        """Whether another client has changed the status since our last write."""
        return self.written is not None and self.written != hash(self.status_text)

    def reports_foreign(self) -> bool:
        """Whether the status reports that no operator of its installation runs it."""
        before = self.status()
        return before is not None and any(each.reason == FOREIGN for each in before.conditions or [])

    def reports_foreign_for_this_spec(self) -> bool:
        """Whether the status reports that for the newest generation."""
        before = self.status()
        return self.reports_foreign() and before is not None and before.observed_generation == self.resource.generation

    def status(self) -> JobScheduleStatus | None:
        """Returns the status in the cluster, or None if there is none or it is invalid."""
        raw: dict[str, Any] = json.loads(self.status_text)
        if raw.get("observedGeneration", -1) == -1:
            return None
        try:
            return JobScheduleStatus.model_validate(raw)
        except ValidationError:
            return None


class ResourceCache:
    """The existing resources, as last observed."""

    def __init__(self) -> None:
        self._known: dict[Key, CachedResource] = {}
        self._by_definition: dict[int, Key] = {}

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[Key]:
        return iter(list(self._known))

    def get(self, key: Key) -> CachedResource | None:
        """Returns a resource, or None if it does not exist."""
        return self._known.get(key)

    def all(self) -> Iterable[CachedResource]:
        """Returns all resources, in no order."""
        return list(self._known.values())

    def observe(self, found: Resource, problem: ScheduleProblem | None) -> bool:
        """Stores the observed resource. Returns True if its resourceVersion or its problem changed."""
        old = self._known.get(found.key)
        if old is not None and old.resource.uid == found.uid and _older(found, old.resource):
            return False
        changed = old is None or old.resource.resource_version != found.resource_version or old.problem != problem
        lean = replace(found, spec={}, status={})
        conditions = tuple((each["type"], each["status"]) for each in found.status.get("conditions", ()))
        text = _text(found)
        if old is None or old.resource.uid != found.uid:
            old = self._known[found.key] = CachedResource(lean, text, problem, old.definition_id if old else None)
        else:
            old.resource, old.status_text, old.problem = lean, text, problem
        old.conditions = conditions
        return changed

    def remove(self, key: Key) -> None:
        """Removes a resource that no longer exists."""
        gone = self._known.pop(key, None)
        if gone is not None and gone.definition_id is not None:
            self._by_definition.pop(gone.definition_id, None)

    def link(self, key: Key, definition_id: int) -> None:
        """Records the id of the row of a known resource in the database."""
        if (known := self._known.get(key)) is None:
            return
        if known.definition_id is not None:
            self._by_definition.pop(known.definition_id, None)
        self._by_definition[definition_id] = key
        known.definition_id = definition_id

    def keys_for(self, definition_ids: Iterable[int]) -> set[Key]:
        """Returns the keys of the resources with these rows. Unknown rows are left out."""
        return {key for each in definition_ids if (key := self._by_definition.get(each))}


def _text(found: Resource) -> bytes:
    return json.dumps(dict(found.status), separators=(",", ":"), sort_keys=True).encode()


def _older(one: Resource, other: Resource) -> bool:
    """Whether `one` has the lower resourceVersion. In all releases of Kubernetes they compare as numbers."""
    if not (one.resource_version.isdecimal() and other.resource_version.isdecimal()):
        return False
    return int(one.resource_version) < int(other.resource_version)
