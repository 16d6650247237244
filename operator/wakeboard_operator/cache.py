"""What the operator knows of each resource, in little memory: ten thousand of them are common."""

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
    from wakeboard_operator.problems import Problem
    from wakeboard_operator.resources import Key, Resource


@dataclass(slots=True)
class CachedResource:
    """A resource without its spec, its status as text, and what is wrong with it, if anything."""

    resource: Resource
    status_text: bytes
    problem: Problem | None = None
    definition_id: int | None = None
    written_at: float = 0.0  # time.monotonic() of our last status write
    written: int | None = None  # a hash of the status text that it left
    repairs: int = 0  # how often this operator has repaired it lately
    event_budget: EventBudget | None = None
    conditions: tuple[tuple[str, str], ...] = ()  # (type, status), for the metrics

    @staticmethod
    def hash_of(found: Resource) -> int:
        """The hash of the status that the cluster has after a write."""
        return hash(_text(found))

    def is_written_over(self) -> bool:
        """Whether another client has changed the status since our last write."""
        return self.written is not None and self.written != hash(self.status_text)

    def says_foreign(self) -> bool:
        """Whether the status reports that no operator of its installation runs it."""
        before = self.status()
        return before is not None and any(each.reason == FOREIGN for each in before.conditions or [])

    def says_foreign_of_this_spec(self) -> bool:
        """The same, and the status is about the newest generation."""
        before = self.status()
        return self.says_foreign() and before is not None and before.observed_generation == self.resource.generation

    def status(self) -> JobScheduleStatus | None:
        """The status that it has in the cluster; None: none, or one that nobody can read."""
        raw: dict[str, Any] = json.loads(self.status_text)
        if raw.get("observedGeneration", -1) == -1:
            return None
        try:
            return JobScheduleStatus.model_validate(raw)
        except ValidationError:
            return None


class ResourceCache:
    """The resources that there are, as seen last."""

    def __init__(self) -> None:
        self._known: dict[Key, CachedResource] = {}
        self._by_definition: dict[int, Key] = {}

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[Key]:
        return iter(list(self._known))

    def get(self, key: Key) -> CachedResource | None:
        """What is known of it; None: it does not exist."""
        return self._known.get(key)

    def all(self) -> Iterable[CachedResource]:
        """Everything that is known, in no order."""
        return list(self._known.values())

    def see(self, found: Resource, problem: Problem | None) -> bool:
        """It was seen like this; whether that is news (its version, or what is wrong with it)."""
        old = self._known.get(found.key)
        if old is not None and old.resource.uid == found.uid and _older(found, old.resource):
            return False
        news = old is None or old.resource.resource_version != found.resource_version or old.problem != problem
        lean = replace(found, spec={}, status={})
        conditions = tuple((each["type"], each["status"]) for each in found.status.get("conditions", ()))
        text = _text(found)
        if old is None or old.resource.uid != found.uid:
            old = self._known[found.key] = CachedResource(lean, text, problem, old.definition_id if old else None)
        else:
            old.resource, old.status_text, old.problem = lean, text, problem
        old.conditions = conditions
        return news

    def forget(self, key: Key) -> None:
        """It is gone."""
        self._known.pop(key, None)

    def link(self, key: Key, definition_id: int) -> None:
        """Its row in the database."""
        self._by_definition[definition_id] = key
        if known := self._known.get(key):
            known.definition_id = definition_id

    def keys_of(self, definition_ids: Iterable[int]) -> set[Key]:
        """The resources of these rows, as far as they are known."""
        return {key for each in definition_ids if (key := self._by_definition.get(each)) in self._known and key}


def _text(found: Resource) -> bytes:
    return json.dumps(dict(found.status), separators=(",", ":"), sort_keys=True).encode()


def _older(one: Resource, other: Resource) -> bool:
    """Versions of one resource can be compared as numbers, in every release of Kubernetes that there has been."""
    if not (one.resource_version.isdecimal() and other.resource_version.isdecimal()):
        return False
    return int(one.resource_version) < int(other.resource_version)
