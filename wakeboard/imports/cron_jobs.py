"""Finds CronJobs in manifests: files and folders of YAML, standard input, and the JSON that kubectl prints.

Objects of other kinds are passed by, also another API group's CronJobs. Each problem has its file and line, and hides
no other CronJob. Input is bounded, as for JobSchedules; JSON may be larger, because kubectl prints all CronJobs of a
cluster as one document.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

import yaml

from wakeboard.declared.bounded_file import MAX_FILE_BYTES, Unreadable, decode, read_text
from wakeboard.declared.yaml_documents import children, line_of, nodes_of, value_of
from wakeboard.errors import WakeboardError
from wakeboard.imports.suspended_text import suspended_text
from wakeboard.manifests import files_below

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import IO

MAX_JSON_BYTES: Final = 64 << 20
_MAX_DEPTH: Final = 64
_WHITE: Final = b" \t\r\n"


@dataclass(frozen=True, slots=True)
class FoundCronJob:
    """A CronJob, and where it was found. `text`: its manifest with `suspend: true`, if there is one to edit."""

    value: dict[str, Any]
    where: str
    text: str | None = None


@dataclass(slots=True)
class CronJobs:
    """What was found. `problems`: sentences that begin with `file:line`. `others`: how many objects were passed by."""

    found: list[FoundCronJob] = field(default_factory=list[FoundCronJob])
    problems: list[str] = field(default_factory=list[str])
    others: int = 0


def cron_jobs_in(path: Path) -> CronJobs:
    """Those of every *.yaml, *.yml and *.json file below `path`, or of the single file `path`.

    Raises WakeboardError if `path` does not exist.
    """
    if not path.exists():
        raise WakeboardError(f"there is no file or folder {path}")
    result = CronJobs()

    def add_read_error(error: OSError) -> None:
        result.problems.append(f"{error.filename}: it cannot be read: {error.strerror}")

    for file in files_below(path, add_read_error, (".yaml", ".yml", ".json")) if path.is_dir() else [path]:
        _read(lambda: read_text(file, MAX_JSON_BYTES if file.suffix == ".json" else MAX_FILE_BYTES), str(file), result)  # noqa: B023
    return result


def cron_jobs_of(stream: IO[bytes], name: str) -> CronJobs:
    """Those of a stream; `name` replaces the file name in messages. JSON may have 64 MiB, YAML 4 MiB."""
    result = CronJobs()
    content = stream.read(MAX_JSON_BYTES + 1)
    bound = MAX_JSON_BYTES if content.lstrip(_WHITE)[:1] == b"{" else MAX_FILE_BYTES
    _read(lambda: decode(content, bound), name, result)
    return result


def _read(text: Callable[[], str], name: str, result: CronJobs) -> None:
    try:
        content = text()
        document = _json_object(content)
        if document is not None:
            _add_objects(document, name, result)
        else:
            _read_yaml(content, name, result)
    except OSError as error:
        result.problems.append(f"{name}: it cannot be read: {error.strerror}")
    except Unreadable as error:
        result.problems.append(f"{name}:{error.line}: {error}")


def _json_object(content: str) -> dict[str, Any] | None:
    """The object that the text is in JSON; None if it is not JSON, but perhaps YAML that begins with a brace."""
    if content.lstrip()[:1] != "{":
        return None
    try:
        value = json.loads(content)
    except RecursionError:
        raise Unreadable(1, "it is nested too deeply") from None
    except ValueError:
        return None
    _require_depth(value)
    return cast("dict[str, Any]", value)


def _require_depth(value: object) -> None:
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > _MAX_DEPTH:
            raise Unreadable(1, "it is nested too deeply")
        level = [part for each in level for part in _parts(each)]


def _parts(value: object) -> list[Any]:
    if isinstance(value, dict):
        return list(cast("dict[str, Any]", value).values())
    return cast("list[Any]", value) if isinstance(value, list) else []


def _add_objects(value: object, where: str, result: CronJobs) -> None:
    document = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    kind = str(document.get("kind") or "")
    if kind.endswith("List") and isinstance(document.get("items"), list):
        of_list = kind.removesuffix("List")
        for item in cast("list[Any]", document["items"]):
            _add_objects(_with_kind(item, of_list, document), where, result)
    elif _is_cron_job(kind, str(document.get("apiVersion") or "")):
        result.found.append(FoundCronJob(document, where))
    else:
        result.others += 1


def _with_kind(item: object, kind: str, of_list: dict[str, Any]) -> object:
    """An item of a typed list (CronJobList), which may leave out its kind."""
    if not isinstance(item, dict) or "kind" in item or not kind:
        return cast("object", item)
    return {"apiVersion": of_list.get("apiVersion"), "kind": kind, **cast("dict[str, Any]", item)}


def _is_cron_job(kind: str, api_version: str) -> bool:
    """Whether it is of Kubernetes itself, or does not say whose it is."""
    return kind == "CronJob" and api_version.rpartition("/")[0] in {"", "batch"}


def _read_yaml(content: str, name: str, result: CronJobs) -> None:
    for node in nodes_of(content):
        parts = children(node)
        kind, items = _text(parts.get("kind")), parts.get("items")
        if kind.endswith("List") and isinstance(items, yaml.SequenceNode):
            of_list = {"apiVersion": _text(parts.get("apiVersion"))}
            for item in cast("list[yaml.Node]", items.value):
                if (value := _value(item, kind.removesuffix("List"), name, result)) is not None:
                    _add_objects(_with_kind(value, kind.removesuffix("List"), of_list), _place(name, item), result)
        elif (value := _value(node, kind, name, result)) is not None:
            result.found.append(FoundCronJob(value, _place(name, node), suspended_text(content, node, value)))


def _value(node: yaml.Node, default_kind: str, name: str, result: CronJobs) -> dict[str, Any] | None:
    """A CronJob, or a list of them; None for what is passed by, so that it may be of any form, or cannot be read."""
    parts = children(node)
    kind = _text(parts.get("kind")) or default_kind
    if not kind.endswith("List") and not _is_cron_job(kind, _text(parts.get("apiVersion"))):
        result.others += 1
        return None
    try:
        return cast("dict[str, Any]", value_of(node))
    except Unreadable as error:
        result.problems.append(f"{name}:{error.line}: {error}")
        return None


def _place(name: str, node: yaml.Node) -> str:
    return f"{name}:{line_of(node)}"


def _text(node: yaml.Node | None) -> str:
    return node.value if node is not None and isinstance(node.value, str) else ""
