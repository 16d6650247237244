"""Each post is published once, at its time, as it was edited last. docs/patterns/social-post.md says why."""

from __future__ import annotations

import os
from typing import Any

import aiohttp
import psycopg

import wakeboard

DSN = os.environ["WAKEBOARD_DSN"]
NETWORK = f"http://127.0.0.1:{os.environ['SOCIAL_PORT']}"
TIMEOUT = aiohttp.ClientTimeout(total=1)


@wakeboard.handler("publish_post")
async def publish_post(run: wakeboard.Run) -> dict[str, Any]:
    """Publishes a post that is due and was not withdrawn."""
    text = await take(run)
    if text is None:
        return {"published": False}
    async with run.effect("publish") as effect, aiohttp.ClientSession(NETWORK, timeout=TIMEOUT) as network:
        try:
            url = await find(network, effect.provider_key) if effect.done or effect.in_doubt else None
            if url is None:
                url = await publish(network, text, effect.provider_key)
        except (aiohttp.ClientError, TimeoutError) as error:  # published or not? the next attempt asks
            raise wakeboard.RetryAfter(2, f"in doubt: {error!r}") from error
    async with await psycopg.AsyncConnection.connect(DSN) as conn:
        update = "update posts set status = 'published', url = %s where id = %s and run = %s"
        await conn.execute(update, (url, run.payload["post"], run.uuid))
    return {"published": True, "url": url}


async def take(run: wakeboard.Run) -> str | None:
    """The text, if this run is the one that publishes the post. From here on it cannot be edited or withdrawn."""
    take = """
        update posts set status = 'publishing', run = %(run)s
         where id = %(post)s and publish_at <= now()
           and (status = 'scheduled' or (status = 'publishing' and run = %(run)s))
        returning text"""
    early = """
        select extract(epoch from publish_at - now())::float from posts
         where id = %(post)s and status = 'scheduled' and publish_at > now()"""
    names = {"run": run.uuid, "post": run.payload["post"]}
    async with await psycopg.AsyncConnection.connect(DSN) as conn:
        if found := await (await conn.execute(take, names)).fetchone():
            return found[0]
        if found := await (await conn.execute(early, names)).fetchone():
            raise wakeboard.Snooze(max(0.1, found[0]))  # it was moved while this run started
    return None  # withdrawn, or another run publishes it


async def publish(network: aiohttp.ClientSession, text: str, reference: str) -> str:
    """Returns the post's address."""
    async with network.post("/posts", json={"text": text, "reference": reference}) as answer:
        if answer.status in {429, 503}:
            raise wakeboard.RetryAfter(float(answer.headers.get("Retry-After", 2)), "the network is busy")
        if answer.status == 422:
            raise wakeboard.Discard("the network refuses this text")
        answer.raise_for_status()
        return (await answer.json())["url"]


async def find(network: aiohttp.ClientSession, reference: str) -> str | None:
    """The address of the post with our reference, if the network has it."""
    async with network.get("/posts", params={"reference": reference}) as answer:
        answer.raise_for_status()
        found = await answer.json()
    return found[0]["url"] if found else None
