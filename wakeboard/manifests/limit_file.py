"""Loads declared limits from a YAML file with one document. Each problem has its file and line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wakeboard.errors import InvalidSchedule
from wakeboard.manifests.bounded_file import Unreadable, read_text
from wakeboard.manifests.yaml_documents import children, line_at, line_of, nodes_of, value_of
from wakeboard.rules.declared_limits import API_VERSION, KIND, load_limits

if TYPE_CHECKING:
    from pathlib import Path

    import yaml

    from wakeboard.rules.declared_limits import Limits


def load_limit_file(path: Path) -> Limits:
    """The limits of a file with one document. Raises InvalidSchedule with a sentence for each problem."""
    try:
        nodes = list(nodes_of(read_text(path)))
        kind = children(nodes[0]).get("kind") if nodes else None
        if kind is None or kind.value != KIND:
            line = line_of(nodes[0]) if nodes else 1
            raise InvalidSchedule(
                f'{path}:{line}: these are no limits; write "apiVersion: {API_VERSION}" and "kind: {KIND}"'
            )
        if len(nodes) > 1:
            raise InvalidSchedule(
                f"{path}:{line_of(nodes[1])}: this is a second document; put all limits into the first"
            )
        return limits_of(nodes[0], path)
    except OSError as error:
        raise InvalidSchedule(f"{path}: it cannot be read: {error.strerror}") from None
    except Unreadable as error:
        raise InvalidSchedule(f"{path}:{error.line}: {error}") from None


def limits_of(node: yaml.Node, file: Path) -> Limits:
    """The limits of one document of a file. Raises InvalidSchedule or Unreadable."""
    return load_limits(value_of(node), lambda place: f"{file}:{line_at(node, place)}")
