// Code generated from wakeboard/text/mask_rules.py and secret_keys.py by make fix. DO NOT EDIT.

package worker

import "regexp"

var maskRules = []maskRule{
	{
		words:   []string{"-----begin"},
		pattern: regexp.MustCompile(`(-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:[\s\S]*?-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----|[\s\S]*))`),
	},
	{
		words:   []string{"://"},
		pattern: regexp.MustCompile(`://[^\s:/?#@\[\]]{0,255}:(?:((?:[^:\s\x22<>]|:+(?:/:+)*/?[^:/\s\x22<>])*(?::+(?:/:+)*/?)?)@|((?:[^:\s<>]|:+(?:/:+)*/?[^:/\s<>])*(?::+(?:/:+)*/?)?)@)`),
		unless: []map[string]*regexp.Regexp{
			{"value": regexp.MustCompile(`(?i)^(?:(?:[0-9]{1,5}[/?#][\s\S]*)?)$`)},
		},
	},
	{
		words:   []string{"://"},
		pattern: regexp.MustCompile(`(?i)://([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})@`),
	},
	{
		words:   []string{"://"},
		pattern: regexp.MustCompile(`://([^\s:/?#@\[\]"'<>]{16,})@`),
		unless: []map[string]*regexp.Regexp{
			{"value": regexp.MustCompile(`(?i)^(?:(?:[^_.-]{0,15}|[A-Za-z+=%~]{16,}|[0-9]{16,})(?:[_.-](?:[^_.-]{0,15}|[A-Za-z+=%~]{16,}|[0-9]{16,}))*)$`)},
		},
	},
	{
		words:   []string{"authorization", "cookie", "x-api-key"},
		pattern: regexp.MustCompile(`(?i)\b(?:(?:proxy-)?authorization|(?:set-)?cookie|x-api-key)\\?["']?\s{0,3}[:=,]\s{0,3}(?:b?\*\*\*|b?(\\?"[^"\r\n]+"?|\\?'[^'\r\n]+'?)|([^\s"'\r\n][^"'\r\n]*))`),
	},
	{
		words:   []string{"bearer", "basic", "digest", "token"},
		pattern: regexp.MustCompile(`(?i)\b(?:Bearer|Basic|Digest|Token)\s{1,3}([0-9A-Za-z._~+/=-]{8,})`),
		unless: []map[string]*regexp.Regexp{
			{"value": regexp.MustCompile(`(?i)^(?:(?:[A-Za-z]{0,19}|[0-9])[\x00-/:-@\[-^\x60{-\x7f]*)$`)},
		},
	},
	{
		words:   []string{"pass"},
		pattern: regexp.MustCompile(`[a-z](Pass)(\\?["']?\]?\s{0,3}(?:=>|[:=]|%3[AaDd])\s{0,3}|\)=\(|\\?["']\s?,\s{0,3}\\?["']value\\?["']\s?:\s{0,3})(\*\*\*|\{\\?["']?\$secret\b|\\"[^"\\\r\n]*(?:\\")?|"(?:[^"\\\r\n]|\\[^\n])*"?|\\'[^'\\\r\n]*(?:\\')?|'(?:[^'\\\r\n]|\\[^\n])*'?|[^\s"'&][^\s&]*)`),
		unless: []map[string]*regexp.Regexp{
			{"value": regexp.MustCompile(`(?i)^(?:[\x00-/:-@\[-^\x60{-\x7f]*(?:(?:none|null|nil|true|false|undefined)[\x00-/:-@\[-^\x60{-\x7f]*)?)$`)},
			{"value": regexp.MustCompile(`(?i)^(?:\{\\?["']?\$secret)$`)},
			{"before": regexp.MustCompile(`(?i)^(?:[^0-9A-Za-z_-]?)$`), "name": regexp.MustCompile(`(?i)^(?:pass)$`), "value": regexp.MustCompile(`(?i)^(?:[0-9]{1,5}(?:[./][0-9]{1,5})?%?[\x00-/:-@\[-^\x60{-\x7f]?)$`)},
			{"before": regexp.MustCompile(`(?i)^(?:[^0-9A-Za-z_-]?)$`), "name": regexp.MustCompile(`(?i)^(?:pass)$`), "separator": regexp.MustCompile(`(?i)^(?:[\s\S]*\s)$`), "value": regexp.MustCompile(`(?i)^(?:[A-Za-z]{1,5}[\x00-/:-@\[-^\x60{-\x7f]{0,2})$`)},
			{"separator": regexp.MustCompile(`(?i)^(?:[\s\S]*\s)$`), "value": regexp.MustCompile(`(?i)^(?:[A-Za-z_.]+[(\[][^0-9]*|[A-Za-z_]+\.(?:\.*[A-Za-z_]+(?:\.+[A-Za-z_]+)*[\x00-/:-@\[-^\x60{-\x7f]*|\.[\x00-/:-@\[-^\x60{-\x7f]*))$`)},
			{"separator": regexp.MustCompile(`(?i)^(?:[^:]*:\s+)$`), "value": regexp.MustCompile(`(?i)^(?:[A-Za-z]{1,15}[\x00-/:-@\[-^\x60{-\x7f]{0,2})$`), "after": regexp.MustCompile(`(?i)^(?: {1,3}\(?[A-Za-z][\s\S]*)$`)},
			{"before": regexp.MustCompile(`(?i)^(?:[^0-9A-Za-z_-]?)$`), "name": regexp.MustCompile(`(?i)^(?:[a-z]+)$`), "separator": regexp.MustCompile(`(?i)^(?:[^:]*:\s+)$`), "value": regexp.MustCompile(`(?i)^(?:[A-Za-z]{1,15}[\x00-/:-@\[-^\x60{-\x7f]{0,2})$`), "after": regexp.MustCompile(`(?i)^(?:[^\r\n][\s\S]*)$`)},
			{"before": regexp.MustCompile(`(?i)^(?:[^0-9A-Za-z_-]?)$`), "name": regexp.MustCompile(`(?i)^(?:(?:[a-oq-z]|p[b-z])[a-z]+)$`), "separator": regexp.MustCompile(`(?i)^(?:[^:]*:\s+)$`), "value": regexp.MustCompile(`(?i)^(?:[A-Za-z]{1,15}[\x00-/:-@\[-^\x60{-\x7f]{0,2})$`)},
		},
	},
	{
		words:   []string{"pass", "pwd", "secret", "token", "key", "credential", "sig"},
		pattern: regexp.MustCompile(`(?i)\$(?:password|passwd|passphrase|passcode|pass|pwd|secret|token|credentials?|signature|\bsig|(?:api|access|private|secret|account|encryption|master|shared|signing|subscription)[_-]?key|access[_-]?key[_-]?id)|[a-z]pass(?:\\?["']?\]?\s{0,3}(?:=>|[:=]|%3[AaDd])\s{0,3}|\)=\(|\\?["']\s?,\s{0,3}\\?["']value\\?["']\s?:\s{0,3})|pwd(?:\\?["']?\]?\s{0,3}(?:=>|[:=]|%3[AaDd])\s{0,3}|\)=\(|\\?["']\s?,\s{0,3}\\?["']value\\?["']\s?:\s{0,3})[/.~]|(password|passwd|passphrase|passcode|pass|pwd|secret|token|credentials?|signature|\bsig|(?:api|access|private|secret|account|encryption|master|shared|signing|subscription)[_-]?key|access[_-]?key[_-]?id)(\\?["']?\]?\s{0,3}(?:=>|[:=]|%3[AaDd])\s{0,3}|\)=\(|\\?["']\s?,\s{0,3}\\?["']value\\?["']\s?:\s{0,3})(\*\*\*|\{\\?["']?\$secret\b|\\"[^"\\\r\n]*(?:\\")?|"(?:[^"\\\r\n]|\\[^\n])*"?|\\'[^'\\\r\n]*(?:\\')?|'(?:[^'\\\r\n]|\\[^\n])*'?|[^\s"'&][^\s&]*)`),
		unless: []map[string]*regexp.Regexp{
			{"value": regexp.MustCompile(`(?i)^(?:[\x00-/:-@\[-^\x60{-\x7f]*(?:(?:none|null|nil|true|false|undefined)[\x00-/:-@\[-^\x60{-\x7f]*)?)$`)},
			{"value": regexp.MustCompile(`(?i)^(?:\{\\?["']?\$secret)$`)},
			{"before": regexp.MustCompile(`(?i)^(?:[^0-9A-Za-z_-]?)$`), "name": regexp.MustCompile(`(?i)^(?:pass)$`), "value": regexp.MustCompile(`(?i)^(?:[0-9]{1,5}(?:[./][0-9]{1,5})?%?[\x00-/:-@\[-^\x60{-\x7f]?)$`)},
			{"before": regexp.MustCompile(`(?i)^(?:[^0-9A-Za-z_-]?)$`), "name": regexp.MustCompile(`(?i)^(?:pass)$`), "separator": regexp.MustCompile(`(?i)^(?:[\s\S]*\s)$`), "value": regexp.MustCompile(`(?i)^(?:[A-Za-z]{1,5}[\x00-/:-@\[-^\x60{-\x7f]{0,2})$`)},
			{"separator": regexp.MustCompile(`(?i)^(?:[\s\S]*\s)$`), "value": regexp.MustCompile(`(?i)^(?:[A-Za-z_.]+[(\[][^0-9]*|[A-Za-z_]+\.(?:\.*[A-Za-z_]+(?:\.+[A-Za-z_]+)*[\x00-/:-@\[-^\x60{-\x7f]*|\.[\x00-/:-@\[-^\x60{-\x7f]*))$`)},
			{"separator": regexp.MustCompile(`(?i)^(?:[^:]*:\s+)$`), "value": regexp.MustCompile(`(?i)^(?:[A-Za-z]{1,15}[\x00-/:-@\[-^\x60{-\x7f]{0,2})$`), "after": regexp.MustCompile(`(?i)^(?: {1,3}\(?[A-Za-z][\s\S]*)$`)},
			{"before": regexp.MustCompile(`(?i)^(?:[^0-9A-Za-z_-]?)$`), "name": regexp.MustCompile(`(?i)^(?:[a-z]+)$`), "separator": regexp.MustCompile(`(?i)^(?:[^:]*:\s+)$`), "value": regexp.MustCompile(`(?i)^(?:[A-Za-z]{1,15}[\x00-/:-@\[-^\x60{-\x7f]{0,2})$`), "after": regexp.MustCompile(`(?i)^(?:[^\r\n][\s\S]*)$`)},
			{"before": regexp.MustCompile(`(?i)^(?:[^0-9A-Za-z_-]?)$`), "name": regexp.MustCompile(`(?i)^(?:(?:[a-oq-z]|p[b-z])[a-z]+)$`), "separator": regexp.MustCompile(`(?i)^(?:[^:]*:\s+)$`), "value": regexp.MustCompile(`(?i)^(?:[A-Za-z]{1,15}[\x00-/:-@\[-^\x60{-\x7f]{0,2})$`)},
		},
	},
	{
		words:   []string{"--"},
		pattern: regexp.MustCompile(`(?i)--(?:[a-z]{1,20}-)?(?:password|passwd|token|secret|api-key)\s{1,3}([^\s"']+)`),
		unless: []map[string]*regexp.Regexp{
			{"value": regexp.MustCompile(`(?i)^(?:(?:[A-Za-z]{0,19}|[0-9])[\x00-/:-@\[-^\x60{-\x7f]*)$`)},
		},
	},
	{
		words:   []string{"password>", "passwd>", "token>", "secret>"},
		pattern: regexp.MustCompile(`(?i)<[\w:.-]{0,40}(?:password|passwd|token|secret)>([^<]+)`),
	},
	{
		words:   []string{"hooks.slack.com", "discord", "telegram"},
		pattern: regexp.MustCompile(`(?:hooks\.slack\.com/(?:services|workflows|triggers)/|discord(?:app)?\.com/api/webhooks/|api\.telegram\.org/bot)([^\s"'<>]+)`),
	},
	{
		words:   []string{"akia", "asia", "gh", "glpat-", "xox", "sk-", "k_live", "k_test", "aiza", "sg.", "npm", "pypi", "hf", "dop_v1", "hv"},
		pattern: regexp.MustCompile(`\b((?:AKIA|ASIA)[0-9A-Z]{16}|gh[oprsu]_[0-9A-Za-z]{20,}|github_pat_[0-9A-Za-z_]{20,}|glpat-[0-9A-Za-z_-]{16,}|xox[abeoprs]-[0-9A-Za-z-]{10,}|(?:sk|rk|pk)_(?:live|test)_[0-9A-Za-z]{10,}|sk-[0-9A-Za-z_-]{20,}|AIza[0-9A-Za-z_-]{30,}|SG\.[0-9A-Za-z_-]{16,40}\.[0-9A-Za-z_-]{16,}|(?:npm|pypi|hf|dop_v1)[_-][0-9A-Za-z_-]{20,}|hv[sbr]\.[0-9A-Za-z_-]{20,})`),
	},
	{
		words:   []string{"eyj"},
		pattern: regexp.MustCompile(`\b(eyJ[0-9A-Za-z_-]+\.[0-9A-Za-z_-]{8,}(?:\.[0-9A-Za-z_-]*)?)|\beyJ[0-9A-Za-z_-]+`),
	},
}

// The words, parts and endings of keys whose values are secret.
var (
	secretWords   = []string{"auth", "authorization", "bearer", "cookie", "cookies", "credential", "credentials", "cvc", "cvv", "otp", "passcode", "passphrase", "passwd", "password", "passwords", "pin", "pwd", "secret", "secrets", "sig", "signature", "ssn", "token", "tokens"}
	secretParts   = []string{"accesskey", "apikey", "credential", "passphrase", "passwd", "password", "privatekey", "secret"}
	secretEndings = []string{"accountkey", "connectionstring", "dsn", "encryptionkey", "masterkey", "sharedkey", "signingkey", "subscriptionkey", "token"}
)
