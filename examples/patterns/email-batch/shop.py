"""The companion process of this pattern: a shop with customers, which starts a campaign, and its mail provider."""

from __future__ import annotations

import os
import time
from pathlib import Path

import psycopg
from provider import serve

import wakeboard


def main() -> None:
    """Creates the customers, starts the first campaign, and serves until SIGTERM."""
    with psycopg.connect(os.environ["WAKEBOARD_DSN"]) as conn:
        conn.execute(Path(__file__).with_name("schema.sql").read_bytes())
        name = "case mod(id, 50) when 7 then 'gone' when 11 then 'full' else 'customer' end || '-' || id"
        customers = f"insert into customers select id, {name} || '@example.com'"
        customers += " from generate_series(1, %s) as id on conflict do nothing"
        conn.execute(customers.encode(), (int(os.environ["EMAIL_RECIPIENTS"]),))
        campaign = wakeboard.enqueue(
            conn,
            "send_campaign",
            {"campaign": "welcome", "subject": "Welcome"},
            idempotency_key="welcome",
            timeout_s=3600,
        )
    print(f"the campaign is run {campaign.id}: wakeboard run {campaign.id}", flush=True)
    serve()
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main()
