"""JobSchedules as the API server returns them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

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
    """One JobSchedule. `annotations` holds only ours, without their prefix; `status` is {} before the first write."""

    namespace: str
    name: str
    uid: str
    generation: int
    resource_version: str
    spec: Mapping[str, Any]
    annotations: Mapping[str, str]
    status: Mapping[str, Any]

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
    return Resource(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        generation=metadata.get("generation", 1),
        resource_version=metadata["resourceVersion"],
        spec=raw.get("spec") or {},
        annotations={name.removeprefix(OURS): text for name, text in annotations.items() if name.startswith(OURS)},
        status=raw.get("status") or {},
    )
