/** Generated from wakeboard/text/mask_rules.py and secret_keys.py by make fix: do not edit. */

import type { MaskRule } from "./redact.js";

export const MASK_RULES: MaskRule[] = [
  {
    words: ["-----begin"],
    pattern: /(-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:[\s\S]*?-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----|[\s\S]*))/dg,
    unless: [],
  },
  {
    words: ["://"],
    pattern: /:\/\/[^\s:\/?#@\[\]]{0,255}:(?:((?:[^:\s\x22<>]|:+(?:\/:+)*\/?[^:\/\s\x22<>])*(?::+(?:\/:+)*\/?)?)@|((?:[^:\s<>]|:+(?:\/:+)*\/?[^:\/\s<>])*(?::+(?:\/:+)*\/?)?)@)/dg,
    unless: [
      { value: /^(?:(?:[0-9]{1,5}[\/?#][\s\S]*)?)$/i },
    ],
  },
  {
    words: ["://"],
    pattern: /:\/\/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})@/dgi,
    unless: [],
  },
  {
    words: ["://"],
    pattern: /:\/\/([^\s:\/?#@\[\]"'<>]{16,})@/dg,
    unless: [
      { value: /^(?:(?:[^_.-]{0,15}|[A-Za-z+=%~]{16,}|[0-9]{16,})(?:[_.-](?:[^_.-]{0,15}|[A-Za-z+=%~]{16,}|[0-9]{16,}))*)$/i },
    ],
  },
  {
    words: ["authorization", "cookie", "x-api-key"],
    pattern: /\b(?:(?:proxy-)?authorization|(?:set-)?cookie|x-api-key)\\?["']?\s{0,3}[:=,]\s{0,3}(?:b?\*\*\*|b?(\\?"[^"\r\n]+"?|\\?'[^'\r\n]+'?)|([^\s"'\r\n][^"'\r\n]*))/dgi,
    unless: [],
  },
  {
    words: ["bearer", "basic", "digest", "token"],
    pattern: /\b(?:Bearer|Basic|Digest|Token)\s{1,3}([0-9A-Za-z._~+\/=-]{8,})/dgi,
    unless: [
      { value: /^(?:(?:[A-Za-z]{0,19}|[0-9])[\x00-\/:-@\[-^\x60{-\x7f]*)$/i },
    ],
  },
  {
    words: ["pass"],
    pattern: /[a-z](Pass)(\\?["']?\]?\s{0,3}(?:=>|[:=]|%3[AaDd])\s{0,3}|\)=\(|\\?["']\s?,\s{0,3}\\?["']value\\?["']\s?:\s{0,3})(\*\*\*|\{\\?["']?\$secret\b|\\"[^"\\\r\n]*(?:\\")?|"(?:[^"\\\r\n]|\\[^\n])*"?|\\'[^'\\\r\n]*(?:\\')?|'(?:[^'\\\r\n]|\\[^\n])*'?|[^\s"'&][^\s&]*)/dg,
    unless: [
      { value: /^(?:[\x00-\/:-@\[-^\x60{-\x7f]*(?:(?:none|null|nil|true|false|undefined)[\x00-\/:-@\[-^\x60{-\x7f]*)?)$/i },
      { value: /^(?:\{\\?["']?\$secret)$/i },
      { before: /^(?:[^0-9A-Za-z_-]?)$/i, name: /^(?:pass)$/i, value: /^(?:[0-9]{1,5}(?:[.\/][0-9]{1,5})?%?[\x00-\/:-@\[-^\x60{-\x7f]?)$/i },
      { before: /^(?:[^0-9A-Za-z_-]?)$/i, name: /^(?:pass)$/i, separator: /^(?:[\s\S]*\s)$/i, value: /^(?:[A-Za-z]{1,5}[\x00-\/:-@\[-^\x60{-\x7f]{0,2})$/i },
      { separator: /^(?:[\s\S]*\s)$/i, value: /^(?:[A-Za-z_.]+[(\[][^0-9]*|[A-Za-z_]+\.(?:\.*[A-Za-z_]+(?:\.+[A-Za-z_]+)*[\x00-\/:-@\[-^\x60{-\x7f]*|\.[\x00-\/:-@\[-^\x60{-\x7f]*))$/i },
      { separator: /^(?:[^:]*:\s+)$/i, value: /^(?:[A-Za-z]{1,15}[\x00-\/:-@\[-^\x60{-\x7f]{0,2})$/i, after: /^(?: {1,3}\(?[A-Za-z][\s\S]*)$/i },
      { before: /^(?:[^0-9A-Za-z_-]?)$/i, name: /^(?:[a-z]+)$/i, separator: /^(?:[^:]*:\s+)$/i, value: /^(?:[A-Za-z]{1,15}[\x00-\/:-@\[-^\x60{-\x7f]{0,2})$/i, after: /^(?:[^\r\n][\s\S]*)$/i },
      { before: /^(?:[^0-9A-Za-z_-]?)$/i, name: /^(?:(?:[a-oq-z]|p[b-z])[a-z]+)$/i, separator: /^(?:[^:]*:\s+)$/i, value: /^(?:[A-Za-z]{1,15}[\x00-\/:-@\[-^\x60{-\x7f]{0,2})$/i },
    ],
  },
  {
    words: ["pass", "pwd", "secret", "token", "key", "credential", "sig"],
    pattern: /\$(?:password|passwd|passphrase|passcode|pass|pwd|secret|token|credentials?|signature|\bsig|(?:api|access|private|secret|account|encryption|master|shared|signing|subscription)[_-]?key|access[_-]?key[_-]?id)|[a-z]pass(?:\\?["']?\]?\s{0,3}(?:=>|[:=]|%3[AaDd])\s{0,3}|\)=\(|\\?["']\s?,\s{0,3}\\?["']value\\?["']\s?:\s{0,3})|pwd(?:\\?["']?\]?\s{0,3}(?:=>|[:=]|%3[AaDd])\s{0,3}|\)=\(|\\?["']\s?,\s{0,3}\\?["']value\\?["']\s?:\s{0,3})[\/.~]|(password|passwd|passphrase|passcode|pass|pwd|secret|token|credentials?|signature|\bsig|(?:api|access|private|secret|account|encryption|master|shared|signing|subscription)[_-]?key|access[_-]?key[_-]?id)(\\?["']?\]?\s{0,3}(?:=>|[:=]|%3[AaDd])\s{0,3}|\)=\(|\\?["']\s?,\s{0,3}\\?["']value\\?["']\s?:\s{0,3})(\*\*\*|\{\\?["']?\$secret\b|\\"[^"\\\r\n]*(?:\\")?|"(?:[^"\\\r\n]|\\[^\n])*"?|\\'[^'\\\r\n]*(?:\\')?|'(?:[^'\\\r\n]|\\[^\n])*'?|[^\s"'&][^\s&]*)/dgi,
    unless: [
      { value: /^(?:[\x00-\/:-@\[-^\x60{-\x7f]*(?:(?:none|null|nil|true|false|undefined)[\x00-\/:-@\[-^\x60{-\x7f]*)?)$/i },
      { value: /^(?:\{\\?["']?\$secret)$/i },
      { before: /^(?:[^0-9A-Za-z_-]?)$/i, name: /^(?:pass)$/i, value: /^(?:[0-9]{1,5}(?:[.\/][0-9]{1,5})?%?[\x00-\/:-@\[-^\x60{-\x7f]?)$/i },
      { before: /^(?:[^0-9A-Za-z_-]?)$/i, name: /^(?:pass)$/i, separator: /^(?:[\s\S]*\s)$/i, value: /^(?:[A-Za-z]{1,5}[\x00-\/:-@\[-^\x60{-\x7f]{0,2})$/i },
      { separator: /^(?:[\s\S]*\s)$/i, value: /^(?:[A-Za-z_.]+[(\[][^0-9]*|[A-Za-z_]+\.(?:\.*[A-Za-z_]+(?:\.+[A-Za-z_]+)*[\x00-\/:-@\[-^\x60{-\x7f]*|\.[\x00-\/:-@\[-^\x60{-\x7f]*))$/i },
      { separator: /^(?:[^:]*:\s+)$/i, value: /^(?:[A-Za-z]{1,15}[\x00-\/:-@\[-^\x60{-\x7f]{0,2})$/i, after: /^(?: {1,3}\(?[A-Za-z][\s\S]*)$/i },
      { before: /^(?:[^0-9A-Za-z_-]?)$/i, name: /^(?:[a-z]+)$/i, separator: /^(?:[^:]*:\s+)$/i, value: /^(?:[A-Za-z]{1,15}[\x00-\/:-@\[-^\x60{-\x7f]{0,2})$/i, after: /^(?:[^\r\n][\s\S]*)$/i },
      { before: /^(?:[^0-9A-Za-z_-]?)$/i, name: /^(?:(?:[a-oq-z]|p[b-z])[a-z]+)$/i, separator: /^(?:[^:]*:\s+)$/i, value: /^(?:[A-Za-z]{1,15}[\x00-\/:-@\[-^\x60{-\x7f]{0,2})$/i },
    ],
  },
  {
    words: ["--"],
    pattern: /--(?:[a-z]{1,20}-)?(?:password|passwd|token|secret|api-key)\s{1,3}([^\s"']+)/dgi,
    unless: [
      { value: /^(?:(?:[A-Za-z]{0,19}|[0-9])[\x00-\/:-@\[-^\x60{-\x7f]*)$/i },
    ],
  },
  {
    words: ["password>", "passwd>", "token>", "secret>"],
    pattern: /<[\w:.-]{0,40}(?:password|passwd|token|secret)>([^<]+)/dgi,
    unless: [],
  },
  {
    words: ["hooks.slack.com", "discord", "telegram"],
    pattern: /(?:hooks\.slack\.com\/(?:services|workflows|triggers)\/|discord(?:app)?\.com\/api\/webhooks\/|api\.telegram\.org\/bot)([^\s"'<>]+)/dg,
    unless: [],
  },
  {
    words: ["akia", "asia", "gh", "glpat-", "xox", "sk-", "k_live", "k_test", "aiza", "sg.", "npm", "pypi", "hf", "dop_v1", "hv"],
    pattern: /\b((?:AKIA|ASIA)[0-9A-Z]{16}|gh[oprsu]_[0-9A-Za-z]{20,}|github_pat_[0-9A-Za-z_]{20,}|glpat-[0-9A-Za-z_-]{16,}|xox[abeoprs]-[0-9A-Za-z-]{10,}|(?:sk|rk|pk)_(?:live|test)_[0-9A-Za-z]{10,}|sk-[0-9A-Za-z_-]{20,}|AIza[0-9A-Za-z_-]{30,}|SG\.[0-9A-Za-z_-]{16,40}\.[0-9A-Za-z_-]{16,}|(?:npm|pypi|hf|dop_v1)[_-][0-9A-Za-z_-]{20,}|hv[sbr]\.[0-9A-Za-z_-]{20,})/dg,
    unless: [],
  },
  {
    words: ["eyj"],
    pattern: /\b(eyJ[0-9A-Za-z_-]+\.[0-9A-Za-z_-]{8,}(?:\.[0-9A-Za-z_-]*)?)|\beyJ[0-9A-Za-z_-]+/dg,
    unless: [],
  },
];

/** The words, parts and endings of keys whose values are secret. */
export const secretWords = ["auth", "authorization", "bearer", "cookie", "cookies", "credential", "credentials", "cvc", "cvv", "otp", "passcode", "passphrase", "passwd", "password", "passwords", "pin", "pwd", "secret", "secrets", "sig", "signature", "ssn", "token", "tokens"];
export const secretParts = ["accesskey", "apikey", "credential", "passphrase", "passwd", "password", "privatekey", "secret"];
export const secretEndings = ["accountkey", "connectionstring", "dsn", "encryptionkey", "masterkey", "sharedkey", "signingkey", "subscriptionkey", "token"];
