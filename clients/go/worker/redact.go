package worker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// maskRule says how to find one kind of credential. wakeboard/text/mask_rules.py has the list and explains the fields.
type maskRule struct {
	words   []string
	pattern *regexp.Regexp
	unless  []map[string]*regexp.Regexp
}

const (
	margin = 4_096        // bytes behind a cut that are searched, too: half a credential may not be recognised
	ending = ".aaaaaaaa@" // of any credential whose rule needs one: the dot of a JWT, the @ of a URL
	after  = 5            // bytes behind a match that say whether it is prose

	shortestSecret = 4 // bytes of a payload's value that is masked
)

// redact returns the first bytes of text, at most longest, with each part that looks like a credential replaced by ***.
func redact(text string, longest int) string {
	torn := len(text) > longest+margin
	if torn {
		text = text[:longest+margin] + ending
	}
	lower := strings.ToLower(text)
	for _, rule := range maskRules {
		if slices.ContainsFunc(rule.words, func(word string) bool { return strings.Contains(lower, word) }) {
			text = rule.mask(text)
		}
	}
	if torn {
		text = strings.TrimSuffix(text, ending)
	}
	return text[:min(len(text), longest)]
}

// hiderOf replaces the values of a payload under keys such as password, as they are and as JSON and URLs have them.
func hiderOf(payload json.RawMessage) *strings.Replacer {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(payload))
	decoder.UseNumber()
	if decoder.Decode(&value) != nil {
		return strings.NewReplacer()
	}
	shown := map[string]string{}
	collectSecrets(value, "", shown)
	texts := make([]string, 0, len(shown))
	for text := range shown {
		texts = append(texts, text)
	}
	slices.SortFunc(texts, func(one, other string) int { return len(other) - len(one) }) // of two that fit, the first is replaced
	var pairs []string
	for _, text := range texts {
		pairs = append(pairs, text, shown[text])
	}
	return strings.NewReplacer(pairs...)
}

// collectSecrets notes what stands for each secret value. key: under which the value is, or "" if it is not secret.
func collectSecrets(value any, key string, shown map[string]string) {
	switch value := value.(type) {
	case map[string]any:
		for name, item := range value {
			switch {
			case name == "$secret": // the value is a name
				collectSecrets(item, "", shown)
			case isSecretKey(name):
				collectSecrets(item, name, shown)
			default:
				collectSecrets(item, key, shown)
			}
		}
	case []any:
		for _, item := range value {
			collectSecrets(item, key, shown)
		}
	case string, json.Number:
		text := fmt.Sprint(value)
		if key == "" || len(text) < shortestSecret {
			return
		}
		quoted, _ := json.Marshal(text)
		for _, form := range []string{text, string(quoted[1 : len(quoted)-1]), url.QueryEscape(text), url.PathEscape(text)} {
			shown[form] = fmt.Sprintf("[secret %s]", key)
		}
	}
}

// isSecretKey says whether values of this key are masked: wakeboard/text/secret_keys.py has the rules.
func isSecretKey(key string) bool {
	words := keyWords(key)
	whole := strings.Join(words, "")
	return slices.ContainsFunc(words, func(word string) bool { return slices.Contains(secretWords, word) }) ||
		slices.ContainsFunc(secretParts, func(part string) bool { return strings.Contains(whole, part) }) ||
		slices.ContainsFunc(secretEndings, func(ending string) bool { return strings.HasSuffix(whole, ending) }) ||
		len(words) > 1 && words[len(words)-1] == "pass"
}

// keyWords returns the words of a key in lower case: user, API and Key of userAPIKey.
func keyWords(key string) []string {
	var words []string
	letters := []rune(key)
	for at, letter := range letters {
		if kind(letter) == other {
			continue
		}
		before, next := other, other
		if at > 0 {
			before = kind(letters[at-1])
		}
		if at+1 < len(letters) {
			next = kind(letters[at+1])
		}
		goesOn := before == kind(letter) || before == upper && kind(letter) == lower
		if begins := !goesOn || before == upper && kind(letter) == upper && next == lower; begins {
			words = append(words, "")
		}
		words[len(words)-1] += string(unicode.ToLower(letter))
	}
	return words
}

const (
	other = iota
	lower
	upper
	digit
)

func kind(letter rune) int {
	switch {
	case 'a' <= letter && letter <= 'z':
		return lower
	case 'A' <= letter && letter <= 'Z':
		return upper
	case '0' <= letter && letter <= '9':
		return digit
	}
	return other
}

func (rule maskRule) mask(text string) string {
	var masked strings.Builder
	done := 0
	for _, found := range rule.pattern.FindAllStringSubmatchIndex(text, -1) {
		value := len(found) - 2
		for value > 0 && found[value] < 0 {
			value -= 2
		}
		if value > 0 && !rule.stays(text, found, value) {
			masked.WriteString(text[done:found[value]] + "***")
			done = found[value+1]
		}
	}
	return masked.String() + text[done:]
}

func (rule maskRule) stays(text string, found []int, value int) bool {
	group := func(at int) string {
		if at >= len(found) || found[at] < 0 {
			return ""
		}
		return text[found[at]:found[at+1]]
	}
	parts := map[string]string{
		"before": text[max(found[2]-1, 0):max(found[2], 0)], "name": group(2), "separator": group(4), "value": group(value),
		"after": text[found[1]:min(found[1]+after, len(text))],
	}
	return slices.ContainsFunc(rule.unless, func(condition map[string]*regexp.Regexp) bool {
		for part, pattern := range condition {
			if !pattern.MatchString(parts[part]) {
				return false
			}
		}
		return true
	})
}

func logf(format string, values ...any) { log.Print(redact(fmt.Sprintf(format, values...), maxLine)) }
