"""The documents of a YAML file, node by node, and what is wrong with one in a sentence that says what to write instead.

Values are read as kubectl reads them, so that a file means the same in a cluster: `12:30` is text, not 750, and `1e3`
is a number. What YAML would accept in silence and nobody means is refused: a key given twice, keys that are not text
(`on:` reads as true), and aliases that unfold without end.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, cast

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from yaml import SafeLoader as _SafeLoader
else:
    try:
        from yaml import CSafeLoader as _SafeLoader
    except ImportError:  # PyYAML was built without its C part
        from yaml import SafeLoader as _SafeLoader

_TAG: Final = "tag:yaml.org,2002:"
_MERGE: Final = _TAG + "merge"
_TEXT: Final = _TAG + "str"
_MOST_NODES: Final = 100_000  # of one document with its aliases unfolded; 64 KiB of payload hold fewer


class _Loader(_SafeLoader):
    pass


_loader_type: Any = _Loader  # the stubs leave out what its methods take


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


class Unreadable(Exception):
    """Something in a file cannot be read: at which line, and what to write instead."""

    def __init__(self, line: int, sentence: str) -> None:
        super().__init__(sentence)
        self.line = line


def nodes_of(text: str) -> Iterator[yaml.Node]:
    """The documents of a file in order, empty ones left out. Raises Unreadable where it stops being YAML."""
    try:
        for node in yaml.compose_all(text, _Loader):
            if node.tag != _TAG + "null":
                yield node
    except yaml.MarkedYAMLError as error:
        raise _unreadable(error, text) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise Unreadable(line, "this is not YAML: it holds a control character; leave it out") from error


def line_of(node: yaml.Node) -> int:
    """The line on which a document or a part of it begins, from 1."""
    return node.start_mark.line + 1


def line_at(node: yaml.Node, place: Sequence[int | str]) -> int:
    """The line of a part of a document, or of what it is missing in."""
    line = line_of(node)
    for step in place:
        found = _part(node, step)
        if found is None:
            break
        begins, node = found
        line = line_of(begins)
    return line


def _part(node: yaml.Node, step: int | str) -> tuple[yaml.Node, yaml.Node] | None:
    """What `step` leads to: the node with which it begins, and its value."""
    if isinstance(node, yaml.MappingNode):
        pairs = cast("list[tuple[yaml.Node, yaml.Node]]", node.value)
        return next((pair for pair in pairs if pair[0].value == step), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        item = cast("list[yaml.Node]", node.value)[step]
        return item, item
    return None


def value_of(node: yaml.Node) -> object:
    """The value that a node stands for. Raises Unreadable for what nobody means."""
    try:
        nodes = _unfolded(node, {})
    except RecursionError as error:
        raise Unreadable(line_of(node), "it lies too many levels deep; a schedule needs a dozen") from error
    if nodes > _MOST_NODES:
        raise Unreadable(
            line_of(node), "its aliases unfold into more than a schedule can hold; write less, without them"
        )
    loader = _loader_type("")
    try:
        return loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        raise _unreadable(error, "") from error
    finally:
        loader.dispose()


def children(node: yaml.Node) -> dict[str, yaml.Node]:
    """The values of a mapping by their keys as written; nothing for any other node."""
    if not isinstance(node, yaml.MappingNode):
        return {}
    pairs = cast("list[tuple[yaml.Node, yaml.Node]]", node.value)
    return {key.value: value for key, value in pairs if isinstance(key, yaml.ScalarNode)}


def _unfolded(node: yaml.Node, known: dict[int, int]) -> int:
    """How many nodes there are below and with `node`, counting what an alias stands for. Looks at each node once."""
    if id(node) not in known:
        known[id(node)] = _MOST_NODES + 1  # what holds itself is without end
        known[id(node)] = 1 + sum(_unfolded(each, known) for each in _parts(node))
    return known[id(node)]


def _parts(node: yaml.Node) -> list[yaml.Node]:
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
            raise Unreadable(line_of(key), "a key must be text; quote a value that begins with { or [")
        name = cast("str", key.value)
        if key.tag != _TEXT:
            raise Unreadable(line_of(key), f'the key {name} is not text to YAML; write it in quotes, as "{name}"')
        if name in lines:
            raise Unreadable(
                line_of(key), f"{name} is given twice, here and in line {lines[name]}; leave one of them out"
            )
        lines[name] = line_of(key)


def _unreadable(error: yaml.MarkedYAMLError, text: str) -> Unreadable:
    mark = error.problem_mark or error.context_mark
    line = mark.line if mark else 0
    return Unreadable(line + 1, _in_words(error, _character_at(text, line, mark.column if mark else 0)))


def _character_at(text: str, line: int, column: int) -> str:
    lines = text.splitlines()
    return lines[line][column : column + 1] if line < len(lines) else ""


def _in_words(error: yaml.MarkedYAMLError, character: str) -> str:
    problem = error.problem or "it ends too early"
    match problem:
        case _ if error.context == "while scanning an alias" or "undefined alias" in problem:
            return 'a value that begins with * must stand in quotes; a cron line is written as schedule: "*/5 * * * *"'
        case _ if "tab character" in problem or ("cannot start any token" in problem and character == "\t"):
            return "this line is indented with a tab; YAML wants spaces"
        case _ if "cannot start any token" in problem:
            return f'a value that begins with {character} must stand in quotes, for example schedule: "@daily"'
        case _ if "mapping values are not allowed" in problem:
            return 'a value with ": " in it must stand in quotes; without one, the indentation of this line is off'
        case _ if "constructor for the tag" in problem:
            return f"{problem.rpartition(' ')[2]} is no kind of value that a JobSchedule can hold; write plain YAML"
        case _:
            return f"this is not YAML: {problem}"
