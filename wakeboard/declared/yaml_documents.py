"""Parses a YAML file into documents, with line numbers and error messages that say what to write instead.

Values are parsed as kubectl parses them, so that a file means the same in a cluster: `12:30` is text, not 750, and
`1e3` is a number. Valid YAML that is almost certainly a mistake is refused: duplicate keys, keys that are not text
(`on:` is parsed as true), and aliases that expand too far.

Depth and size are checked at each node while the documents are built: libyaml builds them by recursion in C, where a
deeply nested file would crash the process.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import yaml
from yaml.constructor import SafeConstructor

from wakeboard.declared.bounded_file import Unreadable
from wakeboard.text.humanize import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from yaml import SafeLoader as _SafeLoader
else:
    try:
        from yaml import CSafeLoader as _SafeLoader
    except ImportError:  # PyYAML was built without its C part
        from yaml import SafeLoader as _SafeLoader

_TAG: Final = "tag:yaml.org,2002:"
_NUMBERS: Final = frozenset(_TAG + kind for kind in ("int", "float", "bool", "null"))
_MERGE: Final = _TAG + "merge"
_TEXT: Final = _TAG + "str"
_MAX_NODES: Final = 100_000  # per schedule, with its aliases expanded; a payload of 64 KiB has fewer
_MAX_VALUES: Final = 400_000  # per file, keys among them: about 10,000 schedules
_MAX_DOCUMENTS: Final = 10_000  # per file
_MAX_DEPTH: Final = 64  # a payload has at most 32, and a schedule in a List about five more
_MAX_NUMBER_LENGTH: Final = 400  # characters; a float written in full has at most 310
_TOO_MUCH: Final = "the file has too many documents or values; split it"
_TEMPLATE: Final = "this is a Helm template; render it first: helm template CHART | wakeboard import - (or apply -)"
_NOT_TEXT: Final = "a key must be text; quote a value that begins with { or ["
_TEMPLATE_ACTION: Final = re.compile(
    r"\{\{-?\s*(?:[.$]|/\*|(?:block|define|else|end|fail|if|include|range|required|template|toYaml|tpl|with)\b)"
)


class _Loader(_SafeLoader):
    """Builds the nodes of a text. Each node passes the four methods below, in C as in Python, and aliases do not."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = self._values = 0
        self._tags: dict[str, str] = {}

    def descend_resolver(self, current_node: yaml.Node | None, current_index: object) -> None:  # noqa: ARG002
        self._depth += 1
        self._values += 1
        if self._depth > _MAX_DEPTH + 1:  # what the deepest list or mapping has
            raise Unreadable(_line_or_first(current_node), "it is nested too deeply; a schedule needs about 12 levels")
        if self._values > _MAX_VALUES:
            raise Unreadable(_line_or_first(current_node), _TOO_MUCH)

    def ascend_resolver(self) -> None:
        self._depth -= 1

    def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
        """The tag of a node. Most texts come again and again: the names of fields, above all."""
        resolve = cast("Any", super()).resolve  # the type stubs do not declare its parameters
        if kind is not yaml.ScalarNode or not implicit[0]:
            return resolve(kind, value, implicit)
        tag = self._tags.get(value)
        if tag is None:
            tag = self._tags[value] = resolve(kind, value, implicit)
        return tag


_loader_type: Any = _Loader  # the type stubs do not declare the parameters of its methods
_constructor_type: Any = SafeConstructor  # nor of these


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in {_TAG + "int", _TAG + "float", _TAG + "value"}]
    for first, resolvers in cast("dict[str, list[tuple[str, Any]]]", _SafeLoader.yaml_implicit_resolvers).items()
}
_loader_type.add_implicit_resolver(
    _TAG + "int", re.compile(r"[-+]?(0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)$"), list("-+0123456789")
)
_loader_type.add_implicit_resolver(
    _TAG + "float",
    re.compile(
        r"[-+]?(\.[0-9]+|[0-9][0-9_]*\.[0-9_]*|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?$|[-+]?\.(inf|Inf|INF)$|\.(nan|NaN|NAN)$"
    ),
    list("-+.0123456789"),
)


def nodes_of(text: str) -> Iterator[yaml.Node]:
    """Yields the non-empty documents of a file in order. Raises Unreadable at the first YAML error."""
    documents = 0
    try:
        for node in yaml.compose_all(text, _Loader):
            documents += 1
            if documents > _MAX_DOCUMENTS:
                raise Unreadable(line_of(node), _TOO_MUCH)
            if node.tag != _TAG + "null":
                yield node
    except yaml.MarkedYAMLError as error:
        raise _unreadable(error, text) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise Unreadable(line, "this is not YAML: it contains a control character; remove it") from error


def _line_or_first(node: yaml.Node | None) -> int:
    return 1 if node is None else line_of(node)


def line_of(node: yaml.Node) -> int:
    """Returns the line on which a node begins, counted from 1."""
    return node.start_mark.line + 1


def line_at(node: yaml.Node, path: Sequence[int | str]) -> int:
    """Returns the line of the node at `path`, or of its nearest existing parent."""
    line = line_of(node)
    for key in path:
        found = _child(node, key)
        if found is None:
            break
        start, node = found
        line = line_of(start)
    return line


def _child(node: yaml.Node, key: int | str) -> tuple[yaml.Node, yaml.Node] | None:
    """Returns the node where the child `key` starts (a mapping's key, a list's item) and its value."""
    if isinstance(node, yaml.MappingNode):
        pairs = cast("list[tuple[yaml.Node, yaml.Node]]", node.value)
        return next((pair for pair in pairs if pair[0].value == key), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
        item = cast("list[yaml.Node]", node.value)[key]
        return item, item
    return None


def value_of(node: yaml.Node) -> object:
    """Converts a node to a Python value. Raises Unreadable for ambiguous or oversized values."""
    with suppress(Exception):  # what is wrong or rare is read once more, with its line
        return _plain_value(node, _constructor_type(), set())
    return _any_value(node)


def _any_value(node: yaml.Node) -> object:
    if _expanded_size(node, {}, 1).nodes > _MAX_NODES:
        raise Unreadable(line_of(node), "its aliases expand to more than a schedule can hold; write it without aliases")
    try:
        return _constructor_type().construct_document(node)
    except yaml.MarkedYAMLError as error:
        raise _unreadable(error, "") from error
    except Exception as error:
        raise Unreadable(line_of(node), f"a value in it cannot be read: {str(error)[:200]}") from error


def _plain_value(node: yaml.Node, constructor: Any, seen: set[int], depth: int = 1) -> object:
    """The value of a node as almost all are: text, numbers and truth values under different text keys, no aliases.

    Raises ValueError for another one. It takes a third of the time of the general way.
    """
    if depth > _MAX_DEPTH or id(node) in seen:
        raise ValueError(node.tag)
    seen.add(id(node))
    if node.tag == _TEXT:
        return node.value
    if node.tag in _NUMBERS and len(cast("str", node.value)) <= _MAX_NUMBER_LENGTH:
        return constructor.construct_object(node)
    if node.tag == _TAG + "seq":
        return [_plain_value(item, constructor, seen, depth + 1) for item in cast("list[yaml.Node]", node.value)]
    pairs = cast("list[tuple[yaml.Node, yaml.Node]]", node.value)
    found = {
        key.value: _plain_value(value, constructor, seen, depth + 1)
        for key, value in pairs
        if key.tag == _TEXT and node.tag == _TAG + "map"
    }
    if len(found) < len(pairs):
        raise ValueError(node.tag)
    return found


def children(node: yaml.Node) -> dict[str, yaml.Node]:
    """Returns the values of a mapping by their keys as written; empty for any other node."""
    if not isinstance(node, yaml.MappingNode):
        return {}
    pairs = cast("list[tuple[yaml.Node, yaml.Node]]", node.value)
    return {key.value: value for key, value in pairs if isinstance(key, yaml.ScalarNode)}


class _Size(NamedTuple):
    nodes: int
    levels: int


def _expanded_size(node: yaml.Node, known: dict[int, _Size], depth: int) -> _Size:
    """Counts the nodes and levels of `node`, with aliases expanded. Visits each node once.

    Raises Unreadable for too many levels, invalid keys and invalid scalars.
    """
    if depth > _MAX_DEPTH:
        raise Unreadable(line_of(node), "it is nested too deeply; a schedule needs about 12 levels")
    if id(node) not in known:
        known[id(node)] = _Size(_MAX_NODES + 1, 1)  # an alias to itself would expand for ever
        _check_scalar(node)
        parts = [_expanded_size(each, known, depth + 1) for each in _child_values(node)]
        levels = 1 + max((part.levels for part in parts), default=0)
        if levels > _MAX_DEPTH:
            raise Unreadable(line_of(node), "its aliases expand to too many levels; a schedule needs about 12")
        known[id(node)] = _Size(min(1 + sum(part.nodes for part in parts), _MAX_NODES + 1), levels)
    return known[id(node)]


def _check_scalar(node: yaml.Node) -> None:
    """Raises Unreadable with the scalar's line for an invalid value: 2026-02-31, or a number of 10,000 digits."""
    if not isinstance(node, yaml.ScalarNode) or node.tag in {_TEXT, _TAG + "null", _TAG + "bool"}:
        return
    text = cast("str", node.value)
    if node.tag in {_TAG + "int", _TAG + "float"} and len(text) > _MAX_NUMBER_LENGTH:
        raise Unreadable(line_of(node), f"this number has {counted(len(text), 'character')}; quote it")
    try:
        _constructor_type().construct_object(node)
    except yaml.MarkedYAMLError as error:
        raise _unreadable(error, "") from error
    except Exception as error:
        raise Unreadable(line_of(node), f"{text[:60]!r} is not a valid value; quote it if it is text") from error


def _child_values(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.SequenceNode):
        return cast("list[yaml.Node]", node.value)
    if not isinstance(node, yaml.MappingNode):
        return []
    pairs = cast("list[tuple[yaml.Node, yaml.Node]]", node.value)
    _check_keys([key for key, _ in pairs])
    return [value for _, value in pairs]


def _check_keys(keys: list[yaml.Node]) -> None:
    lines: dict[str, int] = {}
    for key in keys:
        if key.tag == _MERGE:
            continue
        if not isinstance(key, yaml.ScalarNode):
            is_action = any(name.startswith((".", "$")) for name in children(key))  # {{ .Values.schedule }}
            raise Unreadable(line_of(key), _TEMPLATE if is_action else _NOT_TEXT)
        name = cast("str", key.value)
        if key.tag != _TEXT:
            raise Unreadable(line_of(key), f'the key {name} is not text in YAML; quote it: "{name}"')
        if name in lines:
            raise Unreadable(line_of(key), f"{name} is also set in line {lines[name]}; remove one of them")
        lines[name] = line_of(key)


def _unreadable(error: yaml.MarkedYAMLError, text: str) -> Unreadable:
    mark = error.problem_mark or error.context_mark
    line = mark.line if mark else 0
    if _TEMPLATE_ACTION.search(text):
        return Unreadable(line + 1, _TEMPLATE)
    return Unreadable(line + 1, _explained(error, _character_at(text, line, mark.column if mark else 0)))


def _character_at(text: str, line: int, column: int) -> str:
    lines = text.splitlines()
    return lines[line][column : column + 1] if line < len(lines) else ""


def _explained(error: yaml.MarkedYAMLError, character: str) -> str:
    problem = error.problem or "it ends too early"
    match problem:
        case _ if error.context == "while scanning an alias" or "undefined alias" in problem:
            return 'quote a value that begins with *, for example schedule: "*/5 * * * *"'
        case _ if "tab character" in problem or ("cannot start any token" in problem and character == "\t"):
            return "this line is indented with a tab; use spaces"
        case _ if "cannot start any token" in problem:
            return f'quote a value that begins with {character}, for example schedule: "@daily"'
        case _ if "mapping values are not allowed" in problem:
            return 'quote a value that contains ": "; if there is none, correct the indentation of this line'
        case _ if "constructor for the tag" in problem:
            return f"{problem.rpartition(' ')[2]} is not supported in a JobSchedule; write plain YAML"
        case _:
            return f"this is not YAML: {problem}"
