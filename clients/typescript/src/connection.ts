/** A connection that opens when it is first used, and again after it was lost. */

import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";

/** An error whose `name` is that of its class, also of a class that extends it. */
export class NamedError extends Error {
  constructor(message?: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The database cannot be reached at the moment. */
export class DatabaseUnavailable extends NamedError {}

/** Another transaction has locked what the statement needs. */
export class Locked extends DatabaseUnavailable {}

/** Another worker may have the run: stop, and roll back what is not committed. */
export class LeaseLost extends NamedError {}

/** A setting of the worker is invalid. */
export class InvalidOption extends NamedError {}

const TIMESTAMPTZ = 1184;
const CLOSE_MS = 1000;
const ASK_AFTER_MS = 2000; // without a reply
const ASK_EACH_MS = 1000; // from then on, for so long
// Lost connections, a server without resources or that stops or only reads, deadlocks, cancelled statements, a locked row,
// and a prepared statement that the server no longer knows. In a function of wakeboard, which the context names in any
// language of the server's messages: it was replaced during the call.
const UNAVAILABLE = /^(08|25006|25P0[34]|40|53|55P03|57|58|26000|42P05|0A000|42(8C9|703|804|883|P01)([^\n(."«»„“”]*SQL[^\n(."«»„“”]*["«»„“”][^]*?["«»„“”]\n)?[^\n(."«»„“”]*SQL[^\n(."«»„“”]*((wakeboard\.\w+)?\(|["«»„“”]\s*\w+\s*["«»„“”]))/;
const types = {
  getTypeParser: (oid: number, format?: any) =>
    oid === TIMESTAMPTZ ? (text: string) => text : pg.types.getTypeParser(oid, format), // keeps the microseconds
} as pg.CustomTypesConfig;
const names = new Map<string, string>(); // of prepared statements, by their text

/** Parse a timestamptz as the database prints it. */
export const toDate = pg.types.getTypeParser(TIMESTAMPTZ) as (text: string) => Date;

/** Throws InvalidOption, which quotes no part of the connection string: it holds a password. */
export function checkDsn(dsn: string): void {
  const refuse = (why: string) => { throw new InvalidOption(`WAKEBOARD_DSN is not a valid connection string: ${why}`); };
  if (dsn && !/^(postgres(ql)?:\/\/|socket:|\/)/.test(dsn)) refuse("write postgresql://user:password@host:5432/database.");
  try {
    for (const connectionString of hostsOf(dsn)) new pg.Client({ connectionString }); // they connect later
  } catch (error) {
    refuse((error as any)?.syscall ? "it names a file that cannot be read." : "percent-encode special characters, such as those of the password.");
  }
}

/** A connection string for each host of one that names several, which node-postgres cannot read. */
function hostsOf(dsn: string): string[] {
  const [, before, hosts, after] = /^(postgres(?:ql)?:\/\/(?:[^@/?]*@)?)([^@/?]*,[^@/?]*)(.*)$/s.exec(dsn) ?? [];
  return hosts === undefined ? [dsn] : hosts.split(",").map((host) => before + host + after);
}

const destroy = (client: pg.Client | null) => (client as any)?.connection.stream.destroy(); // end() would wait for a reply

/** Throws unless the server may be written to. */
async function expectPrimary(client: pg.Client): Promise<void> {
  const { rows } = await client.query("show transaction_read_only"); // on in a standby
  if (rows[0].transaction_read_only === "on") throw new DatabaseUnavailable("the server only reads");
}

async function isPrimary(connectionString: string): Promise<boolean> {
  const client = new pg.Client({ connectionString, connectionTimeoutMillis: ASK_EACH_MS, query_timeout: ASK_EACH_MS });
  client.on("error", () => {});
  const answer = await client.connect().then(() => expectPrimary(client)).then(() => true, () => false);
  destroy(client);
  return answer;
}

/** The hosts of a connection string, for all connections of a process. Each new connection begins with the first. */
export class Hosts {
  readonly toPrimary: boolean;
  private order: string[]; // a connection string for each
  private readonly connections: Connection[] = [];

  constructor(dsn: string) {
    this.order = hostsOf(dsn);
    this.toPrimary = /[?&]target_session_attrs=(read-write|primary)(&|$)/.test(dsn);
  }

  get count(): number { return this.order.length; }
  get first(): string { return this.order[0]!; }

  add(connection: Connection): void {
    this.connections.push(connection);
  }

  putLast(host: string): void {
    this.order = [...this.order.filter((each) => each !== host), host];
  }

  /**
   * Ends the connections to other hosts once another one than `here` is the primary. A former primary that is frozen or
   * cut off answers nothing and closes nothing.
   */
  async followPrimary(here: string): Promise<void> {
    const others = this.order.filter((each) => each !== here);
    const answers = await Promise.all(others.map(isPrimary));
    const primary = others[answers.indexOf(true)];
    if (primary === undefined) return;
    this.order = [primary, ...this.order.filter((each) => each !== primary)];
    for (const connection of this.connections) connection.leaveUnless(primary);
  }
}

export class Connection {
  private client: Promise<pg.Client> | null = null;
  private latest: pg.Client | null = null; // it connects, or is connected
  private host = "";

  constructor(
    private readonly hosts: Hosts,
    private readonly purpose: string,
    private readonly replyWithinMs: number,
    private readonly prepares: boolean,
    private readonly onNotification: (() => void) | null = null,
  ) {
    hosts.add(this);
  }

  /** Execute one statement. Throws DatabaseUnavailable, Locked, LeaseLost, or the database's error. */
  async rows<Row>(text: string, values: unknown[]): Promise<Row[]> {
    const opened = (this.client ??= this.open());
    const sent = performance.now();
    const ask = () => { if (performance.now() >= sent + ASK_AFTER_MS) void this.hosts.followPrimary(this.host); };
    const timer = this.hosts.toPrimary && this.hosts.count > 1 ? setInterval(ask, ASK_EACH_MS) : undefined;
    try {
      if (!names.has(text)) names.set(text, `wakeboard ${names.size}`);
      const name = this.prepares ? { name: names.get(text)! } : {};
      return (await (await opened).query({ text, values, ...name })).rows as Row[];
    } catch (error) {
      const code = error instanceof pg.DatabaseError ? (error.code ?? "") : null;
      if (code === "WB001") throw new LeaseLost((error as Error).message);
      if (code !== null && !UNAVAILABLE.test(code + ((error as pg.DatabaseError).where ?? ""))) throw error;
      if (code === "55P03") throw new Locked((error as Error).message);
      this.discard(opened);
      throw new DatabaseUnavailable(error instanceof Error ? error.message : String(error));
    } finally {
      clearInterval(timer);
    }
  }

  /** Ends the connection, or the attempt to connect, to another host than this one. */
  leaveUnless(host: string): void {
    if (this.client && this.host !== host) destroy(this.latest);
  }

  async close(): Promise<void> {
    const opened = this.client;
    await Promise.race([opened?.then((client) => client.end()).catch(() => {}), sleep(CLOSE_MS, undefined, { ref: false })]);
    if (opened) this.discard(opened); // the server has not answered
  }

  private open(): Promise<pg.Client> {
    const opened: Promise<pg.Client> = this.connect(() => this.discard(opened));
    return opened;
  }

  /** The first host that answers and, with target_session_attrs=read-write or primary, may be written to. */
  private async connect(onLost: () => void): Promise<pg.Client> {
    const { count } = this.hosts;
    const timeouts = { connectionTimeoutMillis: this.replyWithinMs / count, query_timeout: this.replyWithinMs, keepAlive: true };
    let failure: unknown;
    for (let tried = 0; tried < count; tried++) {
      const host = (this.host = this.hosts.first);
      const about = { connectionString: host, application_name: `wakeboard ${this.purpose}` };
      const client = (this.latest = new pg.Client({ ...about, ...timeouts, types }));
      let lost = () => {};
      client.on("error", () => lost()).on("notification", () => this.onNotification?.());
      try {
        await client.connect();
        if (this.hosts.toPrimary) await expectPrimary(client);
        if (this.onNotification) await client.query("listen wakeboard");
        lost = onLost;
        return client;
      } catch (error) {
        failure = error;
        this.hosts.putLast(host);
        destroy(client);
      }
    }
    throw failure;
  }

  private discard(opened: Promise<pg.Client>): void {
    if (this.client === opened) {
      this.client = null;
      this.hosts.putLast(this.host); // if it does not answer, it would hold the next connection up
    }
    opened.then(destroy).catch(() => {});
  }
}
