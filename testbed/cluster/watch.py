"""Waits for changes by API server watches instead of polling."""

from __future__ import annotations

import http.client
import json
import time
from typing import TYPE_CHECKING, Any

from testbed.cluster.cluster import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from testbed.cluster.cluster import Cluster

AGAIN = 0.1  # seconds until an API server that does not answer is asked again
LOST = OSError, http.client.HTTPException
NOT_NOW = {429, *range(500, 600)}  # HTTP statuses of an API server that starts or stops
LONGEST_WATCH = 30.0  # seconds; a quiet connection would be taken for a lost one
LONGEST_SUMMARY = 4000  # characters of objects in a message


class WaitTimeout(Exception):
    """The condition did not become true in time. The message shows the objects."""


def wait_for(
    cluster: Cluster, path: str, come: Callable[[list[Any]], bool], within: float, what: str = ""
) -> list[Any]:
    """Returns the objects of a collection once `come` is true of them; raises WaitTimeout after `within` seconds.

    The path may have selectors: `/api/v1/namespaces/shop/pods?labelSelector=app%3Dtill`.
    """
    until = time.monotonic() + within
    objects: list[Any] = []
    for objects in snapshots(cluster, path, until):
        if come(objects):
            return objects
    raise WaitTimeout(f"{what or path}: not within {within:.0f} s. Now: {_summary(objects)}")


def snapshots(cluster: Cluster, path: str, until: float) -> Iterator[list[Any]]:
    """What the collection holds, now and after each change, until that moment."""
    while (left := until - time.monotonic()) > 0:
        try:
            listed = cluster.call("GET", path)
        except (*LOST, Refused) as lost:
            if isinstance(lost, Refused) and lost.status not in NOT_NOW:
                raise
            time.sleep(AGAIN)
            continue
        objects = {item["metadata"]["uid"]: item for item in listed["items"]}
        yield list(objects.values())
        version = listed["metadata"]["resourceVersion"]
        for event in watch(cluster, path, version, left):
            if event["type"] == "ERROR":
                break
            item = event["object"]
            if event["type"] == "DELETED":
                objects.pop(item["metadata"]["uid"], None)
            else:
                objects[item["metadata"]["uid"]] = item
            yield list(objects.values())


def watch(cluster: Cluster, path: str, version: str, seconds: float) -> Iterator[Any]:
    """The watch events after this version, until then or until the connection is lost."""
    joint = "&" if "?" in path else "?"
    asked = (
        f"{path}{joint}watch=1&resourceVersion={version}&timeoutSeconds={max(1, round(min(seconds, LONGEST_WATCH)))}"
    )
    try:
        for line in cluster.lines(asked):
            yield json.loads(line)
    except (*LOST, Refused):  # list was allowed, so the version is too old or the server too busy
        return


def _summary(objects: list[Any]) -> str:
    if not objects:
        return "there are none."
    summary = [{"name": item["metadata"]["name"], "status": item.get("status")} for item in objects]
    return json.dumps(summary)[:LONGEST_SUMMARY]
