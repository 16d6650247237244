"""A spec with every field that a schedule with a cron expression may have, none of them with its default."""

from __future__ import annotations

from typing import Any, Final

FULL_SPEC: Final[dict[str, Any]] = {
    "jobType": "send_mail",
    "schedule": "0 8 * * MON",
    "startsAt": "2026-12-01T00:00:00Z",
    "endsAt": "2027-12-01T00:00:00Z",
    "timeZone": "Europe/Lisbon",
    "payload": {"segment": "active", "on": "1e3", "nested": {"list": [1, 2.5, None, True, "0x10"], "empty": {}}},
    "queue": "mail",
    "priority": 5,
    "suspend": True,
    "suspendAfterDead": 3,
    "expectSuccessWithinSeconds": 3600,
    "alertAfterMissed": 2,
    "concurrencyPolicy": "Queue",
    "limitKey": "smtp",
    "catchUp": {"policy": "All", "limit": 7},
    "startingDeadlineSeconds": 60,
    "dst": {"gap": "Skip", "overlap": "Both"},
    "jitterSeconds": 9,
    "maxAttempts": 2,
    "backoff": {"strategy": "Fixed", "baseSeconds": 3, "maxSeconds": 30},
    "timeoutSeconds": 1,
}
