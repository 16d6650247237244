"""An application whose customers get a report every Monday at 8:00 in their time zone, in one file.

`wakeboard up examples/django` runs it, and the worker that executes handlers.py.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import django
from django.conf import settings
from django.core.management import execute_from_command_line
from django.core.wsgi import get_wsgi_application
from django.db import connection, models, transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path
from psycopg.conninfo import conninfo_to_dict

import wakeboard
from wakeboard.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Mapping

KEYS = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}


def database(dsn: str) -> Mapping[str, Any]:
    """A connection string as Django writes it."""
    given = conninfo_to_dict(dsn)
    known = {KEYS[key]: value for key, value in given.items() if key in KEYS}
    options = {key: value for key, value in given.items() if key not in KEYS}
    return {"ENGINE": "django.db.backends.postgresql", **known, "OPTIONS": options}


settings.configure(
    ALLOWED_HOSTS=["127.0.0.1", "localhost"],
    DATABASES={"default": database(os.environ["WAKEBOARD_DSN"])},
    ROOT_URLCONF="app",
    SECRET_KEY=os.urandom(32).hex(),
    USE_TZ=True,
)
django.setup()


class Customer(models.Model):
    """A row of `customers`."""

    email = models.TextField(unique=True)

    class Meta:
        """schema.sql creates the table."""

        app_label = "app"
        db_table = "customers"
        managed = False

    def __str__(self) -> str:
        return self.email


@dataclass(frozen=True)
class SendReport:
    """The payload of `send_report`."""

    customer: int


def sign_up(request: HttpRequest) -> JsonResponse:
    """Creates a customer and her schedule: both, or none of them."""
    given = json.loads(request.body)
    try:
        with transaction.atomic():
            customer = Customer.objects.create(email=given["email"]).pk
            name, zone = f"customers/{customer}-report", given.get("time_zone", "Etc/UTC")
            payload = SendReport(customer)
            wakeboard.schedule(connection, name, "send_report", payload, cron="0 8 * * MON", time_zone=zone)
    except InvalidValue as error:  # a time zone that does not exist
        return JsonResponse({"detail": str(error)}, status=422)
    return JsonResponse({"customer": customer}, status=201)


def list_schedules(_: HttpRequest, customer: int) -> JsonResponse:
    """The schedules of a customer. `next` is null until the scheduler has seen a new one, within a second."""
    found = wakeboard.list_schedules(connection, f"customers/{customer}-*")
    return JsonResponse([{"name": each.name, "next": each.next_run_at} for each in found], safe=False)


def cancel(_: HttpRequest, customer: int) -> HttpResponse:
    """No report follows."""
    with transaction.atomic():
        found = wakeboard.unschedule(connection, f"customers/{customer}-report")
    return HttpResponse(status=204) if found else JsonResponse({"detail": "there is no such schedule"}, status=404)


urlpatterns = [
    path("customers", sign_up),
    path("customers/<int:customer>/schedules", list_schedules),
    path("customers/<int:customer>/schedules/report", cancel),
]
application = get_wsgi_application()


if __name__ == "__main__":
    with connection.cursor() as cursor:
        cursor.execute(Path(__file__).with_name("schema.sql").read_text(encoding="utf-8"))
    sys.modules["app"] = sys.modules["__main__"]  # ROOT_URLCONF
    execute_from_command_line([sys.argv[0], "runserver", "--noreload", f"127.0.0.1:{os.environ['PORT']}"])
