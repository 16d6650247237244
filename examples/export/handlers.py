"""What exports run."""

from __future__ import annotations

import asyncio

import wakeboard


@wakeboard.handler("export_orders")
async def export_orders(run: wakeboard.Run) -> dict[str, int]:
    """Writes the orders to a file, and says how far it is in words that its user may read."""
    rows: int = run.payload["rows"]

    async def write() -> int:
        for row in range(rows):
            await asyncio.sleep(0.2)
            run.progress((row + 1) / rows, f"row {row + 1} of {rows}")
        return rows

    return {"rows": await run.step("Write the rows", write)}
