"""Loads a YAML file that has exactly one document, such as alert rules. Each problem has its file and line."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from wakeboard.declared.bounded_file import Unreadable, read_text
from wakeboard.declared.yaml_documents import children, line_at, line_of, nodes_of, value_of
from wakeboard.errors import InvalidSchedule

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import yaml

    from wakeboard.declared.validation_messages import Place

_T = TypeVar("_T")


def load_single_document(
    path: Path, load: Callable[[object, Callable[[Place], str]], _T], *, api_version: str, kind: str, content: str
) -> _T:
    """What `load` makes of the value of the only document; its second argument returns file and line of a place.

    `content` names in plural what the document holds, for example "alert rules". Raises InvalidSchedule with a sentence
    for each problem.
    """
    try:
        nodes = list(nodes_of(read_text(path)))
        found = children(nodes[0]).get("kind") if nodes else None
        if found is None or found.value != kind:
            line = line_of(nodes[0]) if nodes else 1
            raise InvalidSchedule(
                f'{path}:{line}: these are not {content}; write "apiVersion: {api_version}" and "kind: {kind}"'
            )
        if len(nodes) > 1:
            raise InvalidSchedule(
                f"{path}:{line_of(nodes[1])}: this is a second document; put all {content} into the first"
            )
        return load_document(nodes[0], path, load)
    except OSError as error:
        raise InvalidSchedule(f"{path}: it cannot be read: {error.strerror}") from None
    except Unreadable as error:
        raise InvalidSchedule(f"{path}:{error.line}: {error}") from None


def load_document(node: yaml.Node, file: Path, load: Callable[[object, Callable[[Place], str]], _T]) -> _T:
    """What `load` makes of the value of one document of a file. Raises InvalidSchedule or Unreadable."""
    return load(value_of(node), lambda place: f"{file}:{line_at(node, place)}")
