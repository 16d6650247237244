"""JobSchedules as the API server returns them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from wakeboard.schedules.rules.schedule_origin import origin_of, shown_labels

if TYPE_CHECKING:
    from collections.abc import Mapping

GROUP: Final = "wakeboard.dev"
VERSION: Final = "v1alpha1"
PLURAL: Final = "jobschedules"
KIND: Final = "JobSchedule"
OURS: Final = f"{GROUP}/"  # the prefix of our annotations

Key: TypeAlias = tuple[str, str]  # namespace, name


@dataclass(frozen=True, slots=True)
class Resource:
    """One JobSchedule. `annotations` holds only ours, without their prefix; `status` is {} before the first write.

    `origin` and `labels`: as schedules/rules/schedule_origin.py reads them, for the board.
    """

    namespace: str
    name: str
    uid: str
    generation: int
    resource_version: str
    spec: Mapping[str, Any]
    annotations: Mapping[str, str]
    status: Mapping[str, Any]
    origin: str = ""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def full_name(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


def resource(raw: Mapping[str, Any]) -> Resource:
    """Parses a JSON object of the API server."""
    metadata: Mapping[str, Any] = raw["metadata"]
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    labels: Mapping[str, str] = metadata.get("labels") or {}
    return Resource(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        generation=metadata.get("generation", 1),
        resource_version=metadata["resourceVersion"],
        spec=raw.get("spec") or {},
        annotations={name.removeprefix(OURS): text for name, text in annotations.items() if name.startswith(OURS)},
        status=raw.get("status") or {},
        origin=origin_of(labels, annotations),
        labels=shown_labels(labels),
    )
