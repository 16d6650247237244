/** A connection that opens when it is first used, and again after it was lost. */

import pg from "pg";

import { DatabaseUnavailable, LeaseLost } from "./errors.js";

const TIMESTAMPTZ = 1184;
const UNAVAILABLE = /^(08|53|57P)|^55P03$/; // lost connections, too many clients, a server that stops, a locked row
// Times keep their microseconds: they are scan positions.
const types = {
  getTypeParser: (oid: number, format?: any) =>
    oid === TIMESTAMPTZ ? (text: string) => text : pg.types.getTypeParser(oid, format),
} as pg.CustomTypesConfig;

/** Parse a timestamptz as the database prints it. */
export const toDate = pg.types.getTypeParser(TIMESTAMPTZ) as (text: string) => Date;

const names = new Map<string, string>();
function statementName(text: string): string {
  if (!names.has(text)) names.set(text, `wakeboard ${names.size}`);
  return names.get(text)!;
}

export class Connection {
  private client: Promise<pg.Client> | null = null;

  constructor(
    private readonly dsn: string,
    private readonly name: string,
    private readonly replyWithinMs: number,
    private readonly prepares: boolean,
    private readonly onNotification: (() => void) | null = null,
  ) {}

  /** Execute one statement. Throws DatabaseUnavailable, LeaseLost, or the database's error. */
  async rows<Row>(text: string, values: unknown[]): Promise<Row[]> {
    const opened = (this.client ??= this.open());
    try {
      const client = await opened;
      const named = this.prepares ? { name: statementName(text) } : {};
      return (await client.query({ text, values, ...named })).rows as Row[];
    } catch (error) {
      if (error instanceof pg.DatabaseError && !UNAVAILABLE.test(error.code ?? "")) {
        throw error.code === "WB001" ? new LeaseLost(error.message) : error;
      }
      if (!(error instanceof pg.DatabaseError && error.code === "55P03")) this.discard(opened);
      throw new DatabaseUnavailable(error instanceof Error ? error.message : String(error));
    }
  }

  async close(): Promise<void> {
    const opened = this.client;
    this.client = null;
    await opened?.then((client) => client.end()).catch(() => {});
  }

  private open(): Promise<pg.Client> {
    const client = new pg.Client({
      connectionString: this.dsn,
      application_name: this.name,
      connectionTimeoutMillis: this.replyWithinMs,
      query_timeout: this.replyWithinMs,
      keepAlive: true,
      types,
    });
    const connected = client.connect().then(async () => {
      if (this.onNotification) await client.query("listen wakeboard");
      return client;
    });
    client.on("error", () => this.client === connected && this.discard(connected));
    client.on("notification", () => this.onNotification?.());
    return connected;
  }

  private discard(opened: Promise<pg.Client>): void {
    if (this.client === opened) this.client = null;
    opened.then((client) => (client as any).connection.stream.destroy()).catch(() => {}); // end() would wait for a reply
  }
}
