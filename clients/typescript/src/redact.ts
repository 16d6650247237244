/** Masks what looks like a credential, before a text is stored or logged. */

import { MASK_RULES, secretEndings, secretParts, secretWords } from "./mask_rules.js";

/** How to find one kind of credential: wakeboard/text/mask_rules.py has the list and explains the fields. */
export interface MaskRule {
  words: string[];
  pattern: RegExp;
  unless: Partial<Record<"before" | "name" | "separator" | "value" | "after", RegExp>>[];
}

const MARGIN = 4_096; // characters behind a cut that are searched, too: half a credential may not be recognised
const ENDING = ".aaaaaaaa@"; // of any credential whose rule needs one: the dot of a JWT, the @ of a URL
const AFTER = 5; // characters behind a match that say whether it is prose
const SHORTEST_SECRET = 4; // characters of a payload's value that is masked

/** The first characters of the text, with each part that looks like a credential replaced by `***`. */
export function redact(text: string, longest: number): string {
  const ending = text.length > longest + MARGIN ? ENDING : "";
  text = text.slice(0, longest + MARGIN) + ending;
  const lower = text.toLowerCase();
  for (const rule of MASK_RULES) if (rule.words.some((word) => lower.includes(word))) text = mask(rule, text);
  return (ending && text.endsWith(ending) ? text.slice(0, -ending.length) : text).slice(0, longest);
}

/** A value of a payload that is secret, and what stands for it. */
export type Secret = [value: string, shown: string];

/** The values of a payload under keys such as `password`, as they are and as JSON and URLs have them, the longest first. */
export function secretsOf(payload: unknown): Secret[] {
  const found = new Map<string, string>();
  for (const [value, key] of secretValues(payload, ""))
    for (const text of [value, JSON.stringify(value).slice(1, -1), escaped(value)]) found.set(text, `[secret ${key}]`);
  return [...found].sort(([one], [other]) => other.length - one.length);
}

/** The text without these values. */
export function hide(text: string, secrets: Secret[]): string {
  for (const [value, shown] of secrets) text = text.replaceAll(value, () => shown);
  return text;
}

function* secretValues(value: unknown, key: string): Generator<[value: string, key: string]> {
  if (value && typeof value === "object") {
    for (const [name, item] of Object.entries(value)) // of "$secret", the value is a name
      yield* secretValues(item, name === "$secret" ? "" : !Array.isArray(value) && isSecretKey(name) ? name : key);
  } else if (key && (typeof value === "string" || typeof value === "number") && `${value}`.length >= SHORTEST_SECRET) yield [`${value}`, key];
}

/** Whether values of this key are masked: wakeboard/text/secret_keys.py has the rules. */
export function isSecretKey(key: string): boolean {
  const words = (key.match(/[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+/g) ?? []).map((word) => word.toLowerCase());
  const whole = words.join("");
  return words.some((word) => secretWords.includes(word)) || secretParts.some((part) => whole.includes(part))
    || secretEndings.some((ending) => whole.endsWith(ending)) || (words.length > 1 && words.at(-1) === "pass");
}

function escaped(value: string): string {
  try {
    return encodeURIComponent(value);
  } catch {
    return value; // half a surrogate pair
  }
}

function mask(rule: MaskRule, text: string): string {
  let [masked, done] = ["", 0];
  for (const found of text.matchAll(rule.pattern)) {
    const value = found.findLastIndex((group) => group !== undefined);
    if (!value || stays(rule, text, found, value)) continue;
    const [begin, end] = found.indices![value]!;
    [masked, done] = [masked + text.slice(done, begin) + "***", end];
  }
  return masked + text.slice(done);
}

function stays(rule: MaskRule, text: string, found: RegExpExecArray, value: number): boolean {
  const [begin, end] = [found.indices![1]?.[0] ?? 0, found.index + found[0].length];
  const named = { name: found[1] ?? "", separator: found[2] ?? "", value: found[value]! };
  const parts = { ...named, before: text.slice(Math.max(begin - 1, 0), begin), after: text.slice(end, end + AFTER) };
  const fits = (condition: MaskRule["unless"][number]) =>
    Object.entries(condition).every(([part, pattern]) => pattern.test(parts[part as keyof typeof parts]));
  return rule.unless.some(fits);
}
