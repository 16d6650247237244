"""Sets `suspend: true` in the text of a CronJob's manifest, so that its comments and its layout stay.

The result is used only if it reads as the same CronJob, suspended; otherwise the caller writes the whole object.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, cast

import yaml

from wakeboard.declared.bounded_file import Unreadable
from wakeboard.declared.yaml_documents import children, nodes_of, value_of
from wakeboard.imports.rules.cron_job import suspended_cron_job
from wakeboard.text.sanitize import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

_MARKER: Final = re.compile(r"---(\s|$)")


def suspended_text(content: str, node: yaml.Node, value: Mapping[str, Any]) -> str | None:
    """The part of `content` that holds the document `node`, with `suspend: true`; None if that is not safe.

    `value` is what the document means.
    """
    lines = content.replace("\r\n", "\n").split("\n")
    count = len(lines)
    first = node.start_mark.line
    if first >= len(lines) or _MARKER.match(lines[first]):
        return None
    begin = next((at + 1 for at in range(first, -1, -1) if _MARKER.match(lines[at])), 0)
    end = next((at for at in range(first, len(lines)) if _MARKER.match(lines[at])), len(lines))
    if not _edit(lines, children(node).get("spec")):
        return None
    has_end = end < count or content.endswith("\n")  # a last line without one may end a block of text
    text = "\n".join(lines[begin : end + len(lines) - count]).strip("\n") + ("\n" if has_end else "")
    return text if _means(text, suspended_cron_job(value)) else None


def _edit(lines: list[str], spec: yaml.Node | None) -> bool:
    """Sets the field in place, or adds it below `schedule`; False if the layout is another one."""
    if not isinstance(spec, yaml.MappingNode) or spec.flow_style:
        return False
    pairs = cast("list[tuple[yaml.Node, yaml.Node]]", spec.value)
    by_key = {key.value: (key, value) for key, value in pairs}
    if "suspend" in by_key:
        _, value = by_key["suspend"]
        begin, end = value.start_mark, value.end_mark
        if begin.line != end.line:
            return False
        lines[begin.line] = f"{lines[begin.line][: begin.column]}true{lines[end.line][end.column :]}"
        return True
    if "schedule" not in by_key or by_key["schedule"][1].start_mark.line != by_key["schedule"][1].end_mark.line:
        return False
    key, value = by_key["schedule"]
    lines.insert(value.end_mark.line + 1, " " * key.start_mark.column + "suspend: true")
    return True


def _means(text: str, wanted: Mapping[str, Any]) -> bool:
    if printable(text) != text.expandtabs(4):
        return False
    try:
        nodes = list(nodes_of(text))
        return len(nodes) == 1 and value_of(nodes[0]) == wanted
    except Unreadable:
        return False
