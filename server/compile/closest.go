package compile

import (
	"strings"
	"unicode"
)

// maxSimilar bounds the names that are compared: the work grows with their product.
const maxSimilar = 128

// closest returns the candidate that is most like a name, for hints; "" where none is like it. A candidate must share
// three letters in a row with the name, or two where no candidate shares three, and at least a third of it must agree.
func closest(name string, candidates []string) string {
	name = strings.ToLower(name)
	if len(name) > maxSimilar {
		return ""
	}
	for size := 3; size >= 2; size-- {
		best, bestScore := "", 0.33
		for _, candidate := range candidates {
			lower := strings.ToLower(candidate)
			if len(lower) > maxSimilar || !shareGram(name, lower, size) {
				continue
			}
			longer := max(len(name), len(lower))
			if score := 1 - float64(editDistance(name, lower))/float64(longer); score > bestScore {
				best, bestScore = candidate, score
			}
		}
		if best != "" {
			return best
		}
	}
	return ""
}

// shareGram reports whether some size bytes in a row stand in both names. Punctuation does not count, but the ends of a
// name do.
func shareGram(a, b string, size int) bool {
	a, b = "-"+strings.Map(letter, a)+"-", "-"+strings.Map(letter, b)+"-"
	for i := 0; i+size <= len(a); i++ {
		if strings.Contains(b, a[i:i+size]) {
			return true
		}
	}
	return false
}

func letter(r rune) rune {
	if r == ',' || r == ' ' || unicode.IsLetter(r) || unicode.IsDigit(r) {
		return r
	}
	return -1
}

// editDistance is the Levenshtein distance.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := before
			if a[i] != b[j] {
				replaced++
			}
			before = row[j+1]
			row[j+1] = min(replaced, row[j]+1, before+1)
		}
	}
	return row[len(b)]
}
