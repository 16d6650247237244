"""The documents of a YAML file, node by node, and what is wrong with one in a sentence that says what to write instead.

Values are read as kubectl reads them, so that a file means the same in a cluster: `12:30` is text, not 750, and `1e3`
is a number. What YAML would accept in silence and nobody means is refused: a key given twice, keys that are not text
(`on:` reads as true), and aliases that unfold without end.

Depth and size are bounded on the parser's events, before anything recurses: libyaml builds nodes by recursion in C,
where a deep file ends the process.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import yaml

from wakeboard.local.bounded_file import Unreadable
from wakeboard.rules.humanize import counted

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
_MOST_NODES: Final = 100_000  # of one schedule with its aliases unfolded; 64 KiB of payload hold fewer
_MOST_EVENTS: Final = 400_000  # of one file: some 10,000 schedules
_MOST_DOCUMENTS: Final = 10_000  # of one file
_MOST_LEVELS: Final = 64  # a payload has at most 32, a schedule in a List some five around it
_LONGEST_NUMBER: Final = 400  # characters; a float in full has at most 310


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


def nodes_of(text: str) -> Iterator[yaml.Node]:
    """The documents of a file in order, empty ones left out. Raises Unreadable where it stops being YAML."""
    sound, trouble = _sound_documents(text)
    try:
        for node in islice(yaml.compose_all(text, _Loader), sound):
            if node.tag != _TAG + "null":
                yield node
    except yaml.MarkedYAMLError as error:  # an alias of nothing
        raise _unreadable(error, text) from error
    if trouble is not None:
        raise trouble


def _sound_documents(text: str) -> tuple[int, Unreadable | None]:
    """How many documents may be built, from the first on, and what is wrong with the one after them."""
    sound = depth = events = 0
    try:
        for event in yaml.parse(text, _Loader):
            events += 1
            if isinstance(event, yaml.DocumentEndEvent):
                sound += 1
            elif isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if wrong := _beyond_bounds(sound, depth, events):
                return min(sound, _MOST_DOCUMENTS), Unreadable(
                    event.start_mark.line + 1 if event.start_mark else 1, wrong
                )
    except yaml.MarkedYAMLError as error:
        return sound, _unreadable(error, text)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        return sound, Unreadable(line, "this is not YAML: it holds a control character; leave it out")
    return sound, None


def _beyond_bounds(documents: int, depth: int, events: int) -> str:
    if depth > _MOST_LEVELS:
        return "it lies too many levels deep; a schedule needs a dozen"
    if documents > _MOST_DOCUMENTS or events > _MOST_EVENTS:
        return "the file holds more than can be read at once; split it"
    return ""


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
    if _unfolded(node, {}, 1).nodes > _MOST_NODES:
        raise Unreadable(
            line_of(node), "its aliases unfold into more than a schedule can hold; write less, without them"
        )
    loader = _loader_type("")
    try:
        return loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        raise _unreadable(error, "") from error
    except Exception as error:
        raise Unreadable(line_of(node), f"a value in it cannot be read: {str(error)[:200]}") from error
    finally:
        loader.dispose()


def children(node: yaml.Node) -> dict[str, yaml.Node]:
    """The values of a mapping by their keys as written; nothing for any other node."""
    if not isinstance(node, yaml.MappingNode):
        return {}
    pairs = cast("list[tuple[yaml.Node, yaml.Node]]", node.value)
    return {key.value: value for key, value in pairs if isinstance(key, yaml.ScalarNode)}


class _Size(NamedTuple):
    nodes: int
    levels: int


def _unfolded(node: yaml.Node, known: dict[int, _Size], depth: int) -> _Size:
    """How many nodes and levels there are below and with `node`, counting what an alias stands for.

    Looks at each node once. Raises Unreadable for too many levels, and for scalars that stand for no value.
    """
    if depth > _MOST_LEVELS:
        raise Unreadable(line_of(node), "it lies too many levels deep; a schedule needs a dozen")
    if id(node) not in known:
        known[id(node)] = _Size(_MOST_NODES + 1, 1)  # what holds itself is without end
        _check_scalar(node)
        parts = [_unfolded(each, known, depth + 1) for each in _parts(node)]
        levels = 1 + max((part.levels for part in parts), default=0)
        if levels > _MOST_LEVELS:
            raise Unreadable(line_of(node), "its aliases unfold into too many levels; a schedule needs a dozen")
        known[id(node)] = _Size(min(1 + sum(part.nodes for part in parts), _MOST_NODES + 1), levels)
    return known[id(node)]


def _check_scalar(node: yaml.Node) -> None:
    """Raises Unreadable, with the scalar's own line, if it has no value: 2026-02-31, or a number of 10,000 digits."""
    if not isinstance(node, yaml.ScalarNode) or node.tag in {_TEXT, _TAG + "null", _TAG + "bool"}:
        return
    text = cast("str", node.value)
    if node.tag in {_TAG + "int", _TAG + "float"} and len(text) > _LONGEST_NUMBER:
        raise Unreadable(
            line_of(node), f"this number has {counted(len(text), 'character')}; write numbers like this in quotes"
        )
    loader = _loader_type("")
    try:
        loader.construct_object(node)
    except yaml.MarkedYAMLError as error:
        raise _unreadable(error, "") from error
    except Exception as error:
        raise Unreadable(line_of(node), f"{text[:60]!r} cannot be read; write it in quotes if it is text") from error
    finally:
        loader.dispose()


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
