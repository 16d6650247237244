/**
 * Where claims continue. A claim reads at most 2000 due rows of each queue and priority. So a scan first skips the rows in
 * front that this worker cannot claim (of other job types, or in flight), and each claim continues behind the last one. The
 * next scan finds what became due before that: after two seconds, or when a claim returned fewer runs than it could.
 */

import type { Connection } from "./connection.js";

const SCAN_EVERY_MS = 2000;
const TURN_MS = 50; // of skipping rows, before a claim

/** Where the scan of a queue and priority continues: behind this run. */
export type Position = Record<"queue" | "run_at" | "id", string> & { priority: number };

export class Scan {
  /** There are more rows to skip. */
  unfinished = false;
  private positions: Position[] = [];
  private beganAt = -Infinity;

  constructor(private readonly connection: Connection, private readonly queues: string[], private readonly types: string[]) {}

  /** Claim up to `count` runs. Returns how many it has claimed. */
  async claim(count: number, claim: () => Promise<Position[]>): Promise<number> {
    const now = performance.now();
    if (!this.unfinished && now > this.beganAt + SCAN_EVERY_MS) this.rewind();
    while (this.unfinished && performance.now() < now + TURN_MS) this.unfinished = await this.skip();
    const rows = await claim();
    this.move(rows);
    if (rows.length < count) this.beganAt = -Infinity;
    return rows.length;
  }

  private rewind(): void {
    this.queues.push(this.queues.shift()!); // another queue is the first
    const start = (priority: number) => this.queues.map((queue) => ({ queue, priority, run_at: "-infinity", id: "0" }));
    this.positions = [5, 4, 3, 2, 1].flatMap(start);
    [this.unfinished, this.beganAt] = [true, performance.now()];
  }

  private async skip(): Promise<boolean> {
    const sql = "select queue, priority, run_at, id from wakeboard.advance_scan($1, $2, $3, $4, $5)";
    const next = await this.connection.rows<Position>(sql, [...this.columns(), this.types]);
    this.move(next);
    return next.length > 0;
  }

  /** Continue behind the last of these rows, which are in the order of run_at and id. */
  private move(rows: Position[]): void {
    const last = ({ queue, priority }: Position) => rows.findLast((row) => row.queue === queue && row.priority === priority);
    this.positions = this.positions.map((position) => last(position) ?? position);
  }

  /** Queues, priorities, times and ids of the positions, or of those of one queue. */
  columns(queue?: string): unknown[][] {
    const positions = this.positions.filter((each) => each.queue === (queue ?? each.queue));
    return (["queue", "priority", "run_at", "id"] as const).map((name) => positions.map((each) => each[name]));
  }
}
