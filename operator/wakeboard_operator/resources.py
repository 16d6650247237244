"""JobSchedules as the API server returns them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
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

    `origin` and `labels`: as schedules/rules/schedule_origin.py reads them, for the board. `annotated_at`: the times of
    those annotations that the object did not have when it was created.
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
    annotated_at: Mapping[str, datetime] = field(default_factory=dict[str, datetime])

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
    ours = {name.removeprefix(OURS): text for name, text in annotations.items() if name.startswith(OURS)}
    labels: Mapping[str, str] = metadata.get("labels") or {}
    return Resource(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        generation=metadata.get("generation", 1),
        resource_version=metadata["resourceVersion"],
        spec=raw.get("spec") or {},
        annotations=ours,
        status=raw.get("status") or {},
        origin=origin_of(labels, annotations),
        labels=shown_labels(labels),
        annotated_at=_annotated_at(metadata) if ours else {},
    )


def _annotated_at(metadata: Mapping[str, Any]) -> dict[str, datetime]:
    """When our annotations were last set, by the API server's record (`managedFields`); not those of the creation.

    The record has whole seconds. Within the second of the creation, the write that set the spec is the creation.
    """
    created: str = metadata["creationTimestamp"]
    annotated: dict[str, datetime] = {}
    for write in metadata.get("managedFields") or ():
        fields: Mapping[str, Any] = write.get("fieldsV1") or {}
        at: str = write.get("time") or ""
        if at > created or (at == created and "f:spec" not in fields):
            words: Mapping[str, Any] = fields.get("f:metadata", {}).get("f:annotations", {})
            of_us = (word.removeprefix(f"f:{OURS}") for word in words if word.startswith(f"f:{OURS}"))
            annotated |= dict.fromkeys(of_us, datetime.fromisoformat(at))
    return annotated
