"""Starts the operator from its settings and runs it until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys

from wakeboard.errors import WakeboardError
from wakeboard.process import telemetry
from wakeboard.process.output import write_error
from wakeboard_operator import tracing


def main() -> None:
    """Runs an operator until SIGTERM or SIGINT, then ends the process."""
    code = 1
    try:
        from wakeboard.process.logging_setup import configure_logging
        from wakeboard.settings import unknown_settings
        from wakeboard_operator.operator import operate
        from wakeboard_operator.settings import read_operator_settings

        settings = read_operator_settings()
        configure_logging(settings, quiet=("aiohttp", "asyncio", "kubernetes", "opentelemetry", "psycopg", "urllib3"))
        for sentence in unknown_settings(os.environ):
            logging.getLogger("wakeboard.operator").warning("%s", sentence)
        if telemetry.is_configured(os.environ):
            tracing.start(os.environ.get("POD_NAME") or f"{socket.gethostname()}-{os.getpid()}")
        logging.getLogger("kopf").setLevel(logging.CRITICAL)  # the supervisor logs its problems

        async def run() -> None:
            stop = asyncio.Event()
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, stop.set)
            await operate(settings, stop)
            logging.getLogger("wakeboard.operator").info("stopped")

        asyncio.run(run())
        code = 0
    except WakeboardError as error:
        if os.environ.get("WAKEBOARD_DEBUG"):
            raise
        write_error("wakeboard operator", error.with_hint)
    finally:
        tracing.flush()
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)  # the watch thread may still be in a request
