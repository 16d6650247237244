"""wakeboard: scheduled and background jobs on Postgres and Kubernetes. This is the public API for applications.

Each name is imported at its first use, so that a worker starts fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wakeboard.engine.enqueue import Enqueued as Enqueued
    from wakeboard.engine.enqueue import Job as Job
    from wakeboard.engine.enqueue import enqueue as enqueue
    from wakeboard.engine.enqueue import enqueue_many as enqueue_many
    from wakeboard.engine.handlers import handler as handler
    from wakeboard.engine.run import Run as Run
    from wakeboard.engine.run_tokens import RunToken as RunToken
    from wakeboard.engine.run_tokens import run_token as run_token
    from wakeboard.engine.run_tokens import verify_run_token as verify_run_token
    from wakeboard.errors import Discard as Discard
    from wakeboard.errors import LeaseLost as LeaseLost
    from wakeboard.errors import RetryAfter as RetryAfter
    from wakeboard.errors import Snooze as Snooze
    from wakeboard.errors import WakeboardError as WakeboardError
    from wakeboard.schedules.application_api import Schedule as Schedule
    from wakeboard.schedules.application_api import Scheduled as Scheduled
    from wakeboard.schedules.application_api import ScheduleOptions as ScheduleOptions
    from wakeboard.schedules.application_api import StoredSchedule as StoredSchedule
    from wakeboard.schedules.application_api import get_schedule as get_schedule
    from wakeboard.schedules.application_api import list_schedules as list_schedules
    from wakeboard.schedules.application_api import pause_schedules as pause_schedules
    from wakeboard.schedules.application_api import resume_schedules as resume_schedules
    from wakeboard.schedules.application_api import schedule as schedule
    from wakeboard.schedules.application_api import schedule_many as schedule_many
    from wakeboard.schedules.application_api import unschedule as unschedule
    from wakeboard.schedules.application_api import unschedule_all as unschedule_all

__all__ = [
    "Discard",
    "Enqueued",
    "Job",
    "LeaseLost",
    "RetryAfter",
    "Run",
    "RunToken",
    "Schedule",
    "ScheduleOptions",
    "Scheduled",
    "Snooze",
    "StoredSchedule",
    "WakeboardError",
    "__version__",
    "enqueue",
    "enqueue_many",
    "get_schedule",
    "handler",
    "list_schedules",
    "pause_schedules",
    "resume_schedules",
    "run_token",
    "schedule",
    "schedule_many",
    "unschedule",
    "unschedule_all",
    "verify_run_token",
]
__version__ = "0.1.0"

_MODULES = {
    "Discard": "wakeboard.errors",
    "LeaseLost": "wakeboard.errors",
    "RetryAfter": "wakeboard.errors",
    "Snooze": "wakeboard.errors",
    "WakeboardError": "wakeboard.errors",
    "Run": "wakeboard.engine.run",
    "RunToken": "wakeboard.engine.run_tokens",
    "run_token": "wakeboard.engine.run_tokens",
    "verify_run_token": "wakeboard.engine.run_tokens",
    "handler": "wakeboard.engine.handlers",
    "Enqueued": "wakeboard.engine.enqueue",
    "Job": "wakeboard.engine.enqueue",
    "enqueue": "wakeboard.engine.enqueue",
    "enqueue_many": "wakeboard.engine.enqueue",
    "Schedule": "wakeboard.schedules.application_api",
    "ScheduleOptions": "wakeboard.schedules.application_api",
    "Scheduled": "wakeboard.schedules.application_api",
    "StoredSchedule": "wakeboard.schedules.application_api",
    "get_schedule": "wakeboard.schedules.application_api",
    "list_schedules": "wakeboard.schedules.application_api",
    "pause_schedules": "wakeboard.schedules.application_api",
    "resume_schedules": "wakeboard.schedules.application_api",
    "schedule": "wakeboard.schedules.application_api",
    "schedule_many": "wakeboard.schedules.application_api",
    "unschedule": "wakeboard.schedules.application_api",
    "unschedule_all": "wakeboard.schedules.application_api",
}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'wakeboard' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
