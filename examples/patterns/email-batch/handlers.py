"""One mail to each customer, and never two. docs/patterns/email-batch.md says why."""

from __future__ import annotations

import json
import os
import smtplib
import urllib.request
from email.message import EmailMessage
from typing import Any

import psycopg

import wakeboard

DSN = os.environ["WAKEBOARD_DSN"]
SMTP_PORT = int(os.environ["EMAIL_SMTP_PORT"])
EVENTS_PORT = int(os.environ["EMAIL_EVENTS_PORT"])
PAGE = 500  # customers in one transaction
STATUSES = ("queued", "sent", "bounced", "cancelled")


@wakeboard.handler("send_campaign")
async def send_campaign(run: wakeboard.Run) -> dict[str, int]:
    """Enqueues one run for each customer, page by page, and ends when every mail was sent or has bounced."""
    campaign = run.payload.get("campaign") or f"newsletter {run.scheduled_for:%Y-%m-%d}"
    await run.step("Enqueue the mails", enqueue_pages, run, campaign)
    mails = await count_mails(campaign)
    run.progress(1 - mails["queued"] / max(1, mails["all"]))
    if mails["queued"]:
        run.log.info("%(sent)d sent, %(bounced)d bounced, %(queued)d queued", mails)
        raise wakeboard.Snooze(2)  # uses up no attempt
    return mails


async def enqueue_pages(run: wakeboard.Run, campaign: str) -> None:
    """Each page is a step. An interrupted page was rolled back, and the next attempt begins with it."""
    page, last = 1, 0
    while last is not None:
        last = await run.step(f"Page {page}", enqueue_page, campaign, run.payload["subject"], last)
        page += 1


async def enqueue_page(campaign: str, subject: str, after: int) -> int | None:
    """Enqueues the mails of the next customers in one transaction. Returns the last customer; None at the end."""
    async with await psycopg.AsyncConnection.connect(DSN) as conn:
        query = "select id from customers where id > %s order by id limit %s"
        customers = [row[0] for row in await (await conn.execute(query, (after, PAGE))).fetchall()]
        payloads = [{"campaign": campaign, "customer": customer, "subject": subject} for customer in customers]
        jobs = [  # a repeated page finds the runs of the first one, by the keys
            wakeboard.Job("send_mail", each, idempotency_key=f"{campaign}/{each['customer']}", limit_key="smtp")
            for each in payloads
        ]
        runs = [job.id for job in await wakeboard.enqueue_many(conn, jobs, max_attempts=8, timeout_s=60)]
        rows = "insert into mails select %s, unnest(%s::int[]), unnest(%s::bigint[]) on conflict do nothing"
        await conn.execute(rows, (campaign, customers, runs))
    return customers[-1] if len(customers) == PAGE else None


async def count_mails(campaign: str) -> dict[str, int]:
    """The mails of the campaign by status. One whose run has ended without a mail counts as cancelled."""
    query = """
        select case when mail.status = 'queued' and live.id is null then 'cancelled' else mail.status end, count(*)
          from mails as mail left join wakeboard.job_runs as live on live.id = mail.run
         where campaign = %s group by 1"""
    async with await psycopg.AsyncConnection.connect(DSN) as conn:
        counts = dict(await (await conn.execute(query, (campaign,))).fetchall())
    return {"all": sum(counts.values()), **{status: counts.get(status, 0) for status in STATUSES}}


@wakeboard.handler("send_mail")
def send_mail(run: wakeboard.Run) -> dict[str, Any]:
    """Sends one mail and records what became of it: both are one effect of the campaign and the customer."""
    mail = (run.payload["campaign"], run.payload["customer"])
    with psycopg.connect(DSN, autocommit=True) as conn:
        row = conn.execute("select address from customers where id = %s", mail[1:]).fetchone()
        if row is None:
            raise wakeboard.Discard("the customer was deleted")
        with run.effect("mail:{}:{}".format(*mail), once="forever") as effect:
            if effect.done:
                return {"status": "done by an earlier attempt or run"}
            accepted = effect.in_doubt and is_accepted(effect.provider_key)
            status = "sent" if accepted else deliver(row[0], run.payload["subject"], effect.provider_key)
            conn.execute("update mails set status = %s where (campaign, customer) = (%s, %s)", (status, *mail))
    return {"status": status}


def deliver(address: str, subject: str, key: str) -> str:
    """Returns `sent` or `bounced`."""
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "shop@shop.example", address, subject
    message["Message-ID"] = f"<{key}@shop.example>"  # the same in every attempt
    message.set_content("Hello!")
    try:
        with smtplib.SMTP("127.0.0.1", SMTP_PORT, timeout=5) as smtp:
            smtp.send_message(message)
    except smtplib.SMTPRecipientsRefused as refused:
        return refused_with(*refused.recipients[address])
    except smtplib.SMTPSenderRefused as refused:  # it is no fault of this mail, so it has not bounced
        raise wakeboard.RetryAfter(60, f"the sender is refused: {refused.smtp_code}") from refused
    except smtplib.SMTPDataError as refused:
        return refused_with(refused.smtp_code, refused.smtp_error)
    except (OSError, smtplib.SMTPException) as error:  # accepted or not? the next attempt asks
        raise wakeboard.RetryAfter(2, f"in doubt: {error}") from error
    return "sent"


def refused_with(code: int, reason: Any) -> str:
    """What an answer to RCPT TO or DATA means: the mail was not accepted, for good or for now."""
    if code >= 500:
        return "bounced"  # another attempt would not help
    if code == 452:
        raise wakeboard.RetryAfter(1, "too many mails", limit=True) from None  # stops all runs of the key
    raise wakeboard.RetryAfter(2, f"refused: {code} {reason.decode(errors='replace')}") from None


def is_accepted(key: str) -> bool:
    """Whether the provider has accepted a mail with this Message-ID."""
    with urllib.request.urlopen(f"http://127.0.0.1:{EVENTS_PORT}/messages/{key}", timeout=5) as answer:
        return json.load(answer)["accepted"]
