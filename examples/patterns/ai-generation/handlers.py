"""Articles by a streaming model, resumed after a crash. docs/patterns/ai-generation.md says why this is safe."""

from __future__ import annotations

import json
import os

import aiohttp
import psycopg

import wakeboard

DSN = os.environ["WAKEBOARD_DSN"]
MODEL = f"http://127.0.0.1:{os.environ['AI_PORT']}"
TIMEOUT = aiohttp.ClientTimeout(sock_connect=5, sock_read=10)  # for each token, not for the whole stream


@wakeboard.handler("write_article")
async def write_article(run: wakeboard.Run) -> dict[str, int]:
    """Writes the sections that are not written yet. The payload has the article's id, never a prompt."""
    article, tokens = run.payload["article"], 0
    prompts = await read_prompts(article)
    for number, prompt in enumerate(prompts, start=1):
        tokens += await run.step(f"Section {number}", write_section, run, number, prompt)
        run.progress(number / len(prompts))
    run.log.info("%d sections, %d tokens", len(prompts), tokens)  # counts, no texts
    return {"sections": len(prompts), "tokens": tokens}


async def read_prompts(article: int) -> list[str]:
    """The prompts of an article's sections."""
    async with await psycopg.AsyncConnection.connect(DSN) as conn:
        found = await (await conn.execute("select prompts from articles where id = %s", (article,))).fetchone()
    if found is None:
        raise wakeboard.Discard("the article was deleted")
    return found[0]


async def write_section(run: wakeboard.Run, number: int, prompt: str) -> int:
    """Generates a section and stores it with its price, once for ever. Returns the number of tokens."""
    section, tokens = (run.payload["article"], number), list[str]()
    async with run.effect(f"section:{section[0]}/{number}", once="forever") as effect:  # another run of it waits
        if (effect.done or effect.in_doubt) and (stored := await tokens_of(section)):
            return stored
        try:
            async with aiohttp.ClientSession(MODEL, timeout=TIMEOUT) as model:
                await generate(model, prompt, tokens)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise wakeboard.RetryAfter(1, f"the stream broke: {type(error).__name__}") from error
        finally:
            if tokens:  # the model counts an interrupted stream, too
                await run.consume(len(tokens))
        async with await psycopg.AsyncConnection.connect(DSN) as conn:
            insert = "insert into sections values (%s, %s, %s, %s) on conflict do nothing"  # a suspended worker's
            await conn.execute(insert, (*section, " ".join(tokens), len(tokens)))
    return len(tokens)


async def tokens_of(section: tuple[int, int]) -> int | None:
    """The tokens of a section that is stored."""
    query = "select tokens from sections where (article, number) = (%s, %s)"
    async with await psycopg.AsyncConnection.connect(DSN) as conn:
        found = await (await conn.execute(query, section)).fetchone()
    return found[0] if found else None


async def generate(model: aiohttp.ClientSession, prompt: str, tokens: list[str]) -> None:
    """Appends the tokens as they arrive. If the run is cancelled, the session closes, and the model stops."""
    async with model.post("/generate", json={"prompt": prompt}) as answer:
        if answer.status == 429:  # for the whole account: no run of this tenant starts before
            raise wakeboard.RetryAfter(float(answer.headers["Retry-After"]), "the model is busy", limit=True)
        answer.raise_for_status()
        async for line in answer.content:
            event = json.loads(line)
            if event.get("done"):
                return
            tokens.append(event["token"])
    raise aiohttp.ClientPayloadError("the stream ended early")
