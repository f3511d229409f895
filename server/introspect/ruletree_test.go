package introspect

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const tree = `({QUERY :commandType 1 :hasTargetSRFs true :rtable ({RANGETBLENTRY :eref {ALIAS :aliasname a\ \}b :colnames ("x" "a \" :b) {")}
 :targetList <nothing>}) :targetList ({TARGETENTRY :expr {VAR :varno 2 :varattno 1 :varnullingrels (b) :location 7} :resno 1
 :resname :resorigtbl :ressortgroupref 0 :resorigtbl 77 :resorigcol 3 :resjunk false} {TARGETENTRY :expr {CONST :consttype 23
 :varno 9 :constvalue 4 [ 1 0 0 0 ]} :resno 2 :resname a\"\{ :resorigtbl 0 :resorigcol 0 :resjunk false} {TARGETENTRY
 :expr {VAR :varno 1 :varnullingrels (b 3 4)} :resname <> :resorigtbl 78 :resorigcol 1 :resjunk true} {TARGETENTRY
 :expr {VAR :varno 1 :varnullingrels (b 3 4)} :resname "" :resorigtbl 79 :resorigcol 2 :resjunk false}) :override 0 :stmt_len -1})`

func TestParseRule(t *testing.T) {
	t.Parallel()
	got, repeats, err := parseRule(tree)
	want := []output{{relation: 77, column: 3, item: 2}, {}, {relation: 79, column: 2, item: 1, nullable: true}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(output{})); diff != "" || !repeats || err != nil {
		t.Errorf("repeats %t, %v (-want +got):\n%s", repeats, err, diff)
	}
	for _, wrong := range []string{"", "(", "<>", "({QUERY", "({QUERY :targetList (})", "({QUERY targetList})", tree[:len(tree)/2], `({Q :a "`} {
		if _, _, err := parseRule(wrong); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

func FuzzParseRule(f *testing.F) {
	f.Add(tree)
	f.Add(`({QUERY :targetList <>})`)
	f.Fuzz(func(t *testing.T, s string) {
		list, _, err := parseRule(s)
		if err == nil && len(list) > len(s)/10+1 {
			t.Errorf("%d columns of %d bytes", len(list), len(s))
		}
	})
}
