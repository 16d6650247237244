"""The message that an action leaves for the page to which it returns.

The message travels in a cookie between the two answers. A link cannot set it, scripts cannot read it, and it works with
any number of boards behind one address. It has the hash of its page, so that no other page shows it, and the page that
shows it deletes it. Over HTTPS the prefix __Host- keeps other hosts of the domain from setting it.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from wakeboard.board.paths import safe_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.responses import Response

COOKIE: Final = "wakeboard-message"
MAX_TEXT: Final = 600  # characters, each at most 4 bytes: browsers keep cookies of up to 4 KiB
KEPT_S: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionMessage:
    """What an action did. `problem`: it did not do what was asked.

    `link`: a path inside the board that belongs to it, or "", and `label`: the text of the link.
    """

    text: str
    problem: bool = False
    link: str = ""
    label: str = ""


def leave(answer: Response, message: ActionMessage, page: str, *, secure: bool) -> None:
    """Adds the message to the answer that redirects to its page. `page`: where it leads, from the path on."""
    sent = page.partition("#")[0]  # what the browser requests
    fields = {**asdict(message), "text": message.text[:MAX_TEXT], "page": _digest(sent)}
    written = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    value = base64.urlsafe_b64encode(written).decode().rstrip("=")
    answer.set_cookie(
        _name(secure=secure), value, max_age=KEPT_S, path="/", secure=secure, httponly=True, samesite="strict"
    )


def find(cookies: Mapping[str, str], page: str, *, secure: bool) -> ActionMessage | None:
    """The message for a page; None: there is none, or it is for another page."""
    value = cookies.get(_name(secure=secure), "")
    try:
        fields: Any = json.loads(base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)))
        named, text, link, label = (str(fields[name]) for name in ("page", "text", "link", "label"))
        message = ActionMessage(text=text, problem=bool(fields["problem"]), link=link, label=label)
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    return message if named == _digest(page) and safe_path(link, "") == link else None


def clear(answer: Response, *, secure: bool) -> None:
    """Deletes the message from the browser."""
    answer.delete_cookie(_name(secure=secure), path="/", secure=secure, httponly=True, samesite="strict")


def _digest(page: str) -> str:
    return hashlib.sha256(page.encode("utf-8", "replace")).hexdigest()[:32]


def _name(*, secure: bool) -> str:
    return f"__Host-{COOKIE}" if secure else COOKIE
