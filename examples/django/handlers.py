"""What the schedules of the customers run. They may use the models of the application."""

from __future__ import annotations

from app import Customer, SendReport
from django.db import close_old_connections, connection, transaction

import wakeboard


@wakeboard.handler("send_report")
def send_report(run: wakeboard.Run[SendReport]) -> dict[str, bool]:
    """Stores one report for each customer and week, also if a run is replayed or a second one has the same week."""
    close_old_connections()  # threads of a worker live for long
    customer, week = Customer.objects.get(pk=run.payload.customer), f"{run.scheduled_for:%G-W%V}"
    with transaction.atomic():
        first = run.once(connection, f"report:{customer.pk}:{week}", once="forever")
        if first:
            with connection.cursor() as cursor:
                cursor.execute("insert into reports (customer, week) values (%s, %s)", [customer.pk, week])
    return {"stored by this run": first}
