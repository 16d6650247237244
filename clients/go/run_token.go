package wakeboard

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"time"
	"unicode/utf8"
)

const minSecret = 32 // characters: as long as what HMAC-SHA256 makes (RFC 7518, 3.2)

// RunToken signs a token with which a browser may read the progress, steps and result of this run until expires, and do nothing
// else. The secret is a line of WAKEBOARD_BOARD_WATCH_SECRETS_FILE. A secret of fewer than 32 characters, a zero time, and a run
// without UUID, which another database role enqueued, are errors that are ErrInvalidValue.
func RunToken(run Enqueued, secret string, expires time.Time) (string, error) {
	length := utf8.RuneCountInString(secret)
	switch {
	case length < minSecret:
		return "", fmt.Errorf("%w: the secret has %d characters: write %d or more random ones", ErrInvalidValue, length, minSecret)
	case expires.IsZero():
		return "", fmt.Errorf("%w: expires is zero: write time.Now().Add(time.Hour)", ErrInvalidValue)
	case run.UUID == "":
		return "", fmt.Errorf("%w: run %d was enqueued by another database role, so this one may not show it", ErrInvalidValue, run.ID)
	}
	claims := fmt.Sprintf(`{"aud":"wakeboard:run","sub":%q,"run":%d,"exp":%d}`, run.UUID, run.ID, expires.Unix())
	encoded := base64.RawURLEncoding.EncodeToString
	signed := encoded([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + encoded([]byte(claims))
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(signed))
	return signed + "." + encoded(mac.Sum(nil)), nil
}
