package password

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/boughdb/bough/server/fault"
)

// MaxLength is the longest password, in characters.
const MaxLength = 128

// Reasons for which a password is not good enough.
const (
	ReasonLength     = "length"
	ReasonCharacters = "characters"
	ReasonCommon     = "common"
	ReasonEmail      = "email"
	ReasonSequence   = "sequence"
)

// ErrWeak is the error of a password that is not good enough; its message says why, its reasons all that is wrong.
var ErrWeak = fault.New(fault.Invalid, "weak_password", "the password is too weak")

//go:embed common.txt
var commonText string

var common = sync.OnceValue(func() map[string]bool {
	words := map[string]bool{}
	for word := range strings.FieldsSeq(commonText) {
		words[word] = true
	}
	return words
})

// Check returns ErrWeak unless the password has a good length and is not a common one, nor made from the user's address.
func Check(password, email string, minLength int) error {
	password = norm.NFC.String(password)
	lower := strings.ToLower(password)
	core := reduce(lower)
	local, domain, _ := strings.Cut(strings.ToLower(email), "@")
	domain, _, _ = strings.Cut(domain, ".")
	var why string
	var reasons []string
	for _, rule := range []struct {
		broken      bool
		reason, why string
	}{
		{utf8.RuneCountInString(password) < minLength || utf8.RuneCountInString(password) > MaxLength, ReasonLength,
			fmt.Sprintf("the password must have at least %d characters and at most %d", minLength, MaxLength)},
		{!utf8.ValidString(password) || strings.ContainsFunc(password, unicode.IsControl), ReasonCharacters,
			"the password has characters that cannot be typed"},
		{common()[lower] || common()[core] || core == "", ReasonCommon,
			"the password is one of the most common ones, or one with digits and signs around it"},
		{len(local) > 2 && (core == reduce(local) || lower == local) || len(domain) > 2 && core == domain || lower == strings.ToLower(email) && lower != "", ReasonEmail,
			"the password is made from the e-mail address"},
		{sequence(lower), ReasonSequence, "the password is a repetition or a sequence"},
	} {
		if !rule.broken {
			continue
		}
		if why == "" {
			why = rule.why
		}
		reasons = append(reasons, rule.reason)
	}
	if why == "" {
		return nil
	}
	return ErrWeak.Msgf("%s", why).Because(reasons...)
}

var likeLetters = strings.NewReplacer("0", "o", "1", "l", "3", "e", "4", "a", "5", "s", "7", "t", "@", "a", "$", "s", "!", "i")

// reduce takes off the digits and signs around a word, and reads the ones inside as the letters that they stand for.
func reduce(s string) string {
	around := func(r rune) bool { return !unicode.IsLetter(r) }
	return likeLetters.Replace(strings.TrimFunc(s, around))
}

const rows = "qwertyuiopasdfghjklzxcvbnm qwertzuiopasdfghjklyxcvbnm abcdefghijklmnopqrstuvwxyz 01234567890 1qaz2wsx3edc4rfv5tgb6yhn7ujm"

// sequence reports whether the text is one piece again and again, or a run along the alphabet or the keyboard.
func sequence(s string) bool {
	for n := 1; n <= len(s)/2 && n <= 4; n++ {
		if len(s)%n == 0 && strings.Repeat(s[:n], len(s)/n) == s {
			return true
		}
	}
	return strings.Contains(rows, s) || strings.Contains(rows, reversed(s))
}

func reversed(s string) string {
	out := []rune(s)
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return string(out)
}

// CheckParams says what is wrong with parameters.
func CheckParams(p Params) error {
	switch {
	case p.MemoryKiB < 7168 || p.MemoryKiB > maxMemoryKiB:
		return fmt.Errorf("memory must be 7168 to %d KiB", maxMemoryKiB)
	case p.Iterations < 1 || p.Iterations > 100:
		return fmt.Errorf("iterations must be 1 to 100")
	case p.Parallelism < 1:
		return fmt.Errorf("parallelism must be 1 to 255")
	}
	return nil
}
