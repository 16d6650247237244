"""A mail provider on this machine that misbehaves: SMTP to send, and HTTP to ask what became of a message.

- A tenth of the mails is refused once (451), as by greylisting.
- One mail in twenty is accepted, but the connection breaks before the sender gets the answer.
- Above one and a half times the agreed rate it refuses mails (452).
- Addresses that begin with `gone-` do not exist (550), and mailboxes that begin with `full-` take no mail (552).
- It accepts the same Message-ID twice, so a mail that is sent twice arrives twice.

Each accepted mail is a line of mails.jsonl.
"""

from __future__ import annotations

import json
import os
import time
from asyncio import Transport
from collections import deque
from email.parser import BytesHeaderParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING
from zlib import crc32

from aiosmtpd.controller import Controller

if TYPE_CHECKING:
    from aiosmtpd.smtp import SMTP, Envelope, Session

OUT = Path(os.environ.get("PATTERN_OUT") or Path(__file__).with_name("out"))
MAILS = OUT / "mails.jsonl"
RATE = 100  # mails a second, as in limits.yaml
WINDOW_S = 2.0  # in which the rate is measured
BURST = 60


class Mailbox:
    """The accepted mails: address by message. Every mail is also appended to a file."""

    def __init__(self) -> None:
        OUT.mkdir(parents=True, exist_ok=True)
        self._lock = Lock()
        self._accepted: set[str] = set()
        self._file = MAILS.open("a+", encoding="utf-8")
        self._file.seek(0)
        self._accepted.update(json.loads(line)["message"] for line in self._file)

    def add(self, message: str, address: str) -> None:
        """Accepts a message, again if it comes again."""
        with self._lock:
            self._accepted.add(message)
            self._file.write(json.dumps({"message": message, "to": address}) + "\n")
            self._file.flush()

    def has(self, message: str) -> bool:
        """Whether the message was accepted."""
        return message in self._accepted


class Provider:
    """The callbacks of aiosmtpd. Their names are aiosmtpd's."""

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self._allowed = BURST + 1.5 * RATE * WINDOW_S
        self._recent: deque[float] = deque()
        self._refused_once: set[str] = set()

    async def handle_RCPT(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Answers RCPT TO."""
        del server, session, options
        now = time.monotonic()
        while self._recent and self._recent[0] < now - WINDOW_S:
            self._recent.popleft()
        if len(self._recent) >= self._allowed:
            return "452 4.5.3 Too many mails"
        self._recent.append(now)
        if address.startswith("gone-"):
            return "550 5.1.1 No such mailbox"
        if crc32(address.encode()) % 10 == 0 and address not in self._refused_once:
            self._refused_once.add(address)
            return "451 4.7.1 Try again later"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        """Accepts the message; aborts the connection after one in twenty."""
        del session
        if envelope.rcpt_tos[0].startswith("full-"):
            return "552 5.2.2 Mailbox full"
        assert isinstance(envelope.content, bytes)
        message = BytesHeaderParser().parsebytes(envelope.content)["Message-ID"].strip("<>").partition("@")[0]
        for address in envelope.rcpt_tos:
            self._mailbox.add(message, address)
        if crc32(message.encode()) % 20 == 0 and isinstance(server.transport, Transport):
            server.transport.abort()  # the sender does not know that the mail is accepted
        return "250 Accepted"


def events(mailbox: Mailbox) -> type[BaseHTTPRequestHandler]:
    """GET /messages/ID answers whether the message was accepted: {"accepted": true}."""

    class Events(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = json.dumps({"accepted": mailbox.has(self.path.rpartition("/")[2])}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the standard library
            pass

    return Events


def serve() -> None:
    """Starts both servers in threads."""
    mailbox = Mailbox()
    provider = Provider(mailbox)
    Controller(provider, hostname="127.0.0.1", port=int(os.environ["EMAIL_SMTP_PORT"])).start()
    address = ("127.0.0.1", int(os.environ["EMAIL_EVENTS_PORT"]))
    Thread(target=ThreadingHTTPServer(address, events(mailbox)).serve_forever, daemon=True).start()
