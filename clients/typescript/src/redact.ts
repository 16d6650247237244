/** Masks what looks like a credential, before a text is stored or logged. */

import { MASK_RULES } from "./mask_rules.js";

/** How to find one kind of credential: wakeboard/text/mask_rules.py has the list and explains the fields. */
export interface MaskRule {
  words: string[];
  pattern: RegExp;
  unless: Partial<Record<"before" | "name" | "separator" | "value" | "after", RegExp>>[];
}

const MARGIN = 4_096; // characters behind a cut that are searched, too: half a credential may not be recognised
const ENDING = ".aaaaaaaa@"; // of any credential whose rule needs one: the dot of a JWT, the @ of a URL
const AFTER = 5; // characters behind a match that say whether it is prose

/** The first characters of the text, with each part that looks like a credential replaced by `***`. */
export function redact(text: string, longest: number): string {
  const ending = text.length > longest + MARGIN ? ENDING : "";
  text = text.slice(0, longest + MARGIN) + ending;
  const lower = text.toLowerCase();
  for (const rule of MASK_RULES) if (rule.words.some((word) => lower.includes(word))) text = mask(rule, text);
  return (ending && text.endsWith(ending) ? text.slice(0, -ending.length) : text).slice(0, longest);
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
