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
    text = await take(run.payload["post"])
    if text is None:
        return {"published": False}
    post = run.payload["post"]
    async with (
        run.effect(f"post:{post}", once="forever") as effect,
        aiohttp.ClientSession(NETWORK, timeout=TIMEOUT) as network,
    ):
        try:
            url = await find(network, effect.provider_key) if effect.done or effect.in_doubt else None
            if url is None:
                url = await publish(network, text, effect.provider_key)
        except (aiohttp.ClientError, TimeoutError) as error:  # published or not? the next attempt asks
            raise wakeboard.RetryAfter(2, f"in doubt: {error!r}") from error
    async with await psycopg.AsyncConnection.connect(DSN) as conn:
        await conn.execute("update posts set status = 'published', url = %s where id = %s", (url, post))
    return {"published": True, "url": url}


async def take(post: int) -> str | None:
    """The text of a post that is due. From here on it cannot be edited, moved or withdrawn."""
    take = """
        update posts set status = 'publishing'
         where id = %s and publish_at <= now() and status in ('scheduled', 'publishing')
        returning text"""
    async with await psycopg.AsyncConnection.connect(DSN) as conn:
        found = await (await conn.execute(take, (post,))).fetchone()
    return found[0] if found else None  # it was withdrawn, moved or published


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
