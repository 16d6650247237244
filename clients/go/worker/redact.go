package worker

import (
	"fmt"
	"log"
	"regexp"
	"slices"
	"strings"
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
