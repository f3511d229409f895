package readsql

import (
	"strings"

	"github.com/jackc/pgx/v5"
)

// fence is a view that PostgreSQL would merge into the statement: it then may evaluate a condition of the statement before
// those of the view, on rows that the view hides, and errors such as a division by zero tell of their values
// (PostgreSQL, section 39.5). A subquery with OFFSET is not merged.
type fence struct {
	schema, name string
	count        int // how often the view is in FROM
}

// fenced puts each of the views into a subquery of its own. body is a statement as PostgreSQL writes it, in which all
// names are qualified.
func fenced(body string, fences []fence) (string, error) {
	counts := map[[2]string]int{}
	for _, f := range fences {
		counts[[2]string{f.schema, f.name}] = f.count
	}
	var out strings.Builder
	tokens := tokensOf(body)
	at := func(i int) token {
		if i < 0 || i >= len(tokens) {
			return token{}
		}
		return tokens[i]
	}
	for i := 0; i < len(tokens); i++ {
		name := [2]string{at(i).name, at(i + 2).name}
		_, is := counts[name]
		before, after := at(i-1).text, at(i+3)
		// What else may look like a view is a call, a type after ::, and a collation.
		if !is || at(i+1).text != "." || before == "." || before == ":" || before == "COLLATE" || after.text == "(" || after.text == "." {
			out.WriteString(at(i).space + at(i).text)
			continue
		}
		counts[name]--
		out.WriteString(at(i).space + "(SELECT * FROM " + pgx.Identifier{name[0], name[1]}.Sanitize() + " OFFSET 0)")
		if after.name == "" || after.keyword() {
			out.WriteString(" AS " + pgx.Identifier{name[1]}.Sanitize())
		}
		i += 2
	}
	for _, left := range counts {
		if left != 0 { // such as a column v of an alias that has the name of the schema
			return "", errFence
		}
	}
	return out.String(), nil
}

// token is a word, a quoted name, a literal or a character, with the white space before it.
type token struct {
	space, text string
	name        string // of a word or a quoted name
}

// keyword reports whether a word is one: PostgreSQL writes them in capitals, and quotes names that have some.
func (t token) keyword() bool { return t.text != "" && t.text[0] >= 'A' && t.text[0] <= 'Z' }

func tokensOf(text string) []token {
	var tokens []token
	word := func(c byte) bool {
		return c == '_' || c == '$' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
	}
	for i := 0; i < len(text); {
		start := i
		for i < len(text) && strings.IndexByte(" \t\r\n", text[i]) >= 0 {
			i++
		}
		t := token{space: text[start:i]}
		begin := i
		switch {
		case i == len(text):
		case text[i] == '"':
			i = closing(text, i, false)
			t.name = strings.ReplaceAll(strings.Trim(text[begin:i], `"`), `""`, `"`)
		case text[i] == '\'':
			i = closing(text, i, false)
		case (text[i] == 'E' || text[i] == 'e') && i+1 < len(text) && text[i+1] == '\'':
			i = closing(text, i+1, true)
		case word(text[i]):
			for i < len(text) && word(text[i]) {
				i++
			}
			t.name = text[begin:i]
		default:
			i++
		}
		t.text = text[begin:i]
		tokens = append(tokens, t)
	}
	return tokens
}

// closing returns the place behind the quote that ends a literal or a name, which begins at a quote. A doubled one is part
// of it, and so is one behind a backslash where that escapes.
func closing(text string, at int, escapes bool) int {
	quote := text[at]
	for i := at + 1; i < len(text); i++ {
		switch {
		case escapes && text[i] == '\\':
			i++
		case text[i] != quote:
		case i+1 < len(text) && text[i+1] == quote:
			i++
		default:
			return i + 1
		}
	}
	return len(text)
}

var errFence = errRefused.Msgf("the statement reads a view without security_barrier in a way that could show rows which the view hides").
	WithHint("use other aliases than names of schemas; or the owner sets security_barrier on the view")
