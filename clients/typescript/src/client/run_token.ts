/** Signs tokens with which a browser may watch one run, and do nothing else. */

import { createHmac } from "node:crypto";

import { InvalidValue } from "./query.js";

const MIN_SECRET = 32; // characters: as long as what HMAC-SHA256 makes (RFC 7518, 3.2)
const encoded = (text: string) => Buffer.from(text).toString("base64url");
const HEADER = encoded('{"alg":"HS256","typ":"JWT"}');

/** A token with which a browser may read the progress, steps and result of this run until `expires`. `run`: what `enqueue` returned, or
 * the run of a handler. `secret`: a line of WAKEBOARD_BOARD_WATCH_SECRETS_FILE. Throws InvalidValue for a secret of fewer than
 * 32 characters, for an invalid date, and for a run that another database role enqueued. */
export function runToken(run: { id: string; uuid: string | null }, secret: string, options: { expires: Date }): string {
  const [length, seconds] = [[...secret].length, Math.floor(+options.expires / 1000)];
  if (length < MIN_SECRET) throw new InvalidValue(`the secret has ${length} characters: write ${MIN_SECRET} or more random ones`);
  if (!Number.isFinite(seconds)) throw new InvalidValue("expires is no valid Date: write new Date(Date.now() + 3_600_000)");
  if (!run.uuid) throw new InvalidValue(`run ${run.id} was enqueued by another database role, so this one may not show it`);
  // The id is a number of 64 bits, which JSON.stringify cannot write.
  const signed = `${HEADER}.${encoded(`{"aud":"wakeboard:run","sub":${JSON.stringify(run.uuid)},"run":${BigInt(run.id)},"exp":${seconds}}`)}`;
  return `${signed}.${createHmac("sha256", secret).update(signed).digest("base64url")}`;
}
