"""From when on a worker counts as gone and a tick as overdue, in lists, sentences and the conditions of health."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

NO_WORKER_AFTER: Final = timedelta(minutes=3)  # since the last one was seen
OVERDUE_AFTER: Final = timedelta(minutes=5)  # since the tick was due
