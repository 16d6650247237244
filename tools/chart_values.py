"""charts/wakeboard/values.yaml as those who document and check it read it: every value, its default and its comment.

A value is a key with a comment above it. A map whose keys have no comments is one value; a map whose keys have them is
a group. `# -- Title --` begins a section.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

CHART = Path(__file__).resolve().parents[1] / "charts" / "wakeboard"
HEADING = re.compile(r"# -- (.+) --")

Path_: TypeAlias = tuple[str, ...]


class Uncommented(Exception):
    """A value has no comment."""


@dataclass(frozen=True, slots=True)
class Value:
    """One value, or a group of values (`inner`)."""

    path: Path_
    comment: str
    default: Any
    section: str
    inner: list[Value] = field(default_factory=list["Value"])

    @property
    def name(self) -> str:
        """The name as in `--set`."""
        return ".".join(self.path)

    def leaves(self) -> Iterator[Value]:
        """The values in it, itself if it is one."""
        if not self.inner:
            yield self
        for value in self.inner:
            yield from value.leaves()


class _Reader:
    def __init__(self, text: str) -> None:
        self._defaults: Any = yaml.safe_load(text)
        self._lines = text.splitlines()
        self._headings = {
            number: found[1] for number, line in enumerate(self._lines) if (found := HEADING.fullmatch(line))
        }

    def comment(self, line: int) -> str:
        """The comment directly above a line."""
        words: list[str] = []
        while line > 0 and (above := self._lines[line - 1].strip()).startswith("#") and not HEADING.match(above):
            words.insert(0, above.removeprefix("#").strip())
            line -= 1
        return " ".join(words)

    def section(self, line: int) -> str:
        """The last heading above a line."""
        above = [number for number in self._headings if number < line]
        return self._headings[max(above)] if above else ""

    def values(self, node: yaml.MappingNode, above: Path_ = ()) -> list[Value]:
        """The values of a mapping."""
        return [self._value(key, value, above) for key, value in node.value]

    def _default(self, path: Path_) -> Any:
        found = self._defaults
        for word in path:
            found = found[word]
        return found

    def _value(self, key: yaml.ScalarNode, node: yaml.Node, above: Path_) -> Value:
        path = (*above, key.value)
        line = key.start_mark.line
        inner: list[Value] = []
        if isinstance(node, yaml.MappingNode) and node.value and not node.flow_style:
            first: yaml.ScalarNode = node.value[0][0]
            if self.comment(first.start_mark.line) or _holds_groups(node):
                inner = self.values(node, path)
        value = Value(path, self.comment(line), self._default(path), self.section(line), inner)
        if not inner and not value.comment:
            raise Uncommented(f"{value.name} in charts/wakeboard/values.yaml has no comment above it.")
        return value


def _holds_groups(node: yaml.MappingNode) -> bool:
    return any(isinstance(value, yaml.MappingNode) and not value.flow_style and value.value for _, value in node.value)


def read_values() -> list[Value]:
    """The values at the top, in the order of the file. Raises Uncommented."""
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    root = yaml.compose(text)
    assert isinstance(root, yaml.MappingNode)
    return _Reader(text).values(root)
