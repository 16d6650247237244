"""JobSchedules as the API server returns them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from wakeboard.schedules.rules.schedule_origin import origin_of, shown_labels

if TYPE_CHECKING:
    from collections.abc import Mapping

GROUP: Final = "wakeboard.dev"
VERSION: Final = "v1alpha1"
PLURAL: Final = "jobschedules"
KIND: Final = "JobSchedule"
OURS: Final = f"{GROUP}/"  # the prefix of our annotations

Key: TypeAlias = tuple[str, str]  # namespace, name


class Annotated(NamedTuple):
    """A write of an annotation. `with_spec`: its writer also owns fields of the spec, as the object's creator does."""

    at: datetime  # in UTC, whole seconds; the writer's last write of all, so perhaps later
    with_spec: bool


@dataclass(frozen=True, slots=True)
class Resource:
    """One JobSchedule. `annotations` holds only ours, without their prefix; `status` is {} before the first write.

    `origin` and `labels`: as schedules/rules/schedule_origin.py reads them, for the board. `annotated`: the writes of
    those annotations that the object may not have had when it was created.
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
    annotated: Mapping[str, Annotated] = field(default_factory=dict[str, Annotated])

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
        annotated=_annotated(metadata) if ours else {},
    )


def _annotated(metadata: Mapping[str, Any]) -> dict[str, Annotated]:
    """Reads when our annotations were last written from the API server's record (`managedFields`).

    The record has one time for all that a writer wrote. If several writers own an annotation, the earliest counts. It
    leaves out the annotations of the creation, and those whose write the record does not have. A restored object may
    have a record that is older than its creation.
    """
    created = datetime.fromisoformat(metadata["creationTimestamp"])
    annotated: dict[str, Annotated] = {}
    for write in metadata.get("managedFields") or ():
        fields: Mapping[str, Any] = write.get("fieldsV1") or {}
        if (time := write.get("time")) is None:
            continue
        this = Annotated(datetime.fromisoformat(time), "f:spec" in fields)
        for word in fields.get("f:metadata", {}).get("f:annotations", {}):
            if word.startswith(f"f:{OURS}"):
                action = word.removeprefix(f"f:{OURS}")
                other = annotated.get(action, this)
                annotated[action] = Annotated(min(this.at, other.at), this.with_spec or other.with_spec)
    return {
        action: one
        for action, one in annotated.items()
        if one.at > created or (one.at == created and not one.with_spec)
    }
