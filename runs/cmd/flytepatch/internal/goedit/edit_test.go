package goedit

import (
	"go/ast"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const before = `// Package p is about nothing.
package p

import (
	"errors"
	"fmt" // used throughout

	"example.org/other/queue"

	"example.org/mine/a"
	"example.org/mine/c"
)

// keeper keeps.
type keeper struct {
	name string // its name

	// fed by nobody
	in, out chan string
	deep    map[string]int

	// read by loop
	work chan string // buffered
}

// newKeeper makes one.
func newKeeper() *keeper {
	idle := make(chan string, 1)
	k := &keeper{
		name: "k",
		deep: map[string]int{},
		// what waits
		work: idle,
	}
	// started last
	go k.loop()
	k.out = nil
	return k
}

// A comment that belongs to nobody.

// loop loops.
func (k *keeper) loop() {
	queue.Drain(k.work)
}

func  oddlySpaced( ) { fmt.Println(a.A,c.C) } // stays as it is

func failed(err error) bool { return errors.Is(err, nil) }
`

func parsed(t *testing.T, src string) *File {
	t.Helper()
	file, err := Parse("p/p.go", []byte(src))
	require.NoError(t, err)
	return file
}

func finished(t *testing.T, file *File) string {
	t.Helper()
	out, err := file.Finish()
	require.NoError(t, err)
	return string(out)
}

func TestFinish_WithoutAnEditGivesTheBytesBack(t *testing.T) {
	file := parsed(t, before)
	assert.False(t, file.Changed())
	assert.Equal(t, before, finished(t, file))
}

func TestEdits_ChangeWhatTheyNameAndNothingElse(t *testing.T) {
	file := parsed(t, before)
	require.NoError(t, file.ReplaceDecl("method keeper.loop", "// loop says so.\nfunc (k *keeper) loop() {\nb.Do(k.name)\n}"))
	require.NoError(t, file.RemoveField("keeper", "work"))
	require.NoError(t, file.RemoveField("keeper", "in"))
	require.NoError(t, file.ReplaceField("keeper", "deep", "shallow bool // now"))
	changed, err := file.ReplaceElements("keeper", map[string]bool{"work": true, "deep": true}, "shallow: true")
	require.NoError(t, err)
	assert.Equal(t, []string{"func newKeeper"}, changed)
	require.NoError(t, file.RemoveIdleLocals("", "newKeeper"))
	removed, err := file.RemoveStatements("", "newKeeper", func(stmt ast.Stmt) bool {
		return Calls(stmt, "loop") || AssignsTo(stmt, map[string]bool{"out": true})
	})
	require.NoError(t, err)
	assert.Equal(t, 2, removed)
	require.NoError(t, file.RemoveDecl("func failed"))
	require.NoError(t, file.AddImport("example.org/mine/b"))
	require.NoError(t, file.AddImport("strings"))
	require.NoError(t, file.AddImport("fmt"))
	require.NoError(t, file.AppendDecl("func added", "func added() {}"))
	require.NoError(t, file.DropUnusedImports())

	assert.Equal(t, `// Package p is about nothing.
package p

import (
	"fmt" // used throughout
	"strings"

	"example.org/mine/a"
	"example.org/mine/b"
	"example.org/mine/c"
)

// keeper keeps.
type keeper struct {
	name string // its name

	// fed by nobody
	out     chan string
	shallow bool // now
}

// newKeeper makes one.
func newKeeper() *keeper {
	k := &keeper{
		name:    "k",
		shallow: true,
	}
	return k
}

// A comment that belongs to nobody.

// loop says so.
func (k *keeper) loop() {
	b.Do(k.name)
}

func  oddlySpaced( ) { fmt.Println(a.A,c.C) } // stays as it is

func added() {}
`, finished(t, file))
}

func TestFinish_RefusesAChangeOutsideOfWhatWasTouched(t *testing.T) {
	file := parsed(t, before)
	file.src = []byte(strings.Replace(before, "belongs to nobody", "belongs to somebody", 1))
	_, err := file.Finish()
	assert.ErrorContains(t, err, "p/p.go: something outside")
}

func TestReplaceElements_WithinOneLine(t *testing.T) {
	file := parsed(t, "package p\n\nvar x = t{a: 1, b: 2, c: 3}\nvar y = &t{a: 1, c: 3}\n")
	_, err := file.ReplaceElements("t", map[string]bool{"a": true}, "")
	require.NoError(t, err)
	_, err = file.ReplaceElements("t", map[string]bool{"c": true}, "")
	require.NoError(t, err)
	assert.Equal(t, "package p\n\nvar x = t{b: 2}\nvar y = &t{}\n", finished(t, file))
}

func TestMentions(t *testing.T) {
	file := parsed(t, before)
	assert.Equal(t, []string{"func newKeeper", "method keeper.loop"}, file.Mentions("keeper", "work"))
	assert.Equal(t, []string{"func newKeeper"}, file.Mentions("keeper", "loop"), "its own declaration does not count")
	assert.Empty(t, file.Mentions("", "failed"))
	assert.Equal(t, []string{"func newKeeper", "method keeper.loop"}, file.Mentions("", "keeper"))
	constants := parsed(t, "package p\n\nconst (\n\ta = 1\n\tb = a + 1\n)\n\nvar c T[a]\n\ntype T[P d] []e\n")
	for name, uses := range map[string][]string{"a": {"const a, b", "var c"}, "b": nil, "T": {"var c"}, "d": {"type T"}, "e": {"type T"}} {
		assert.Equal(t, uses, constants.Mentions("", name), name)
	}
	assert.Empty(t, file.Mentions("", "Drain"), "a selected name is no plain identifier")
}

func TestFunc_TellsItsParts(t *testing.T) {
	file := parsed(t, "package p\n\nfunc (r *repo) f(ctx context.Context, a, b int, _ chan<- error) (n int, err error) { return }\n")
	fn := file.Func("repo", "f")
	require.NotNil(t, fn)
	assert.Equal(t, "r", fn.Receiver())
	assert.Equal(t, []string{"ctx", "a", "b", "_"}, fn.Params())
	assert.Equal(t, []string{"context.Context", "int", "int", "chan<- error"}, fn.ParamTypes())
	assert.Equal(t, []string{"int", "error"}, fn.ResultTypes())
	assert.Nil(t, file.Func("", "f"))
}

func TestRenameQualifier_OnlyTheMembersNamed(t *testing.T) {
	file := parsed(t, "package p\n\nfunc f(l *pq.Listener) { pq.Array(nil); _ = pq.Listener{} }\n")
	changed, err := file.RenameQualifier("pq", "pgnotify", map[string]bool{"Listener": true})
	require.NoError(t, err)
	assert.Equal(t, []string{"func f"}, changed)
	assert.Equal(t, "package p\n\nfunc f(l *pgnotify.Listener) { pq.Array(nil); _ = pgnotify.Listener{} }\n", finished(t, file))
}

func TestPackageName(t *testing.T) {
	for path, name := range map[string]string{
		"errors": "errors", "github.com/lib/pq": "pq", "github.com/jackc/pgx/v5": "pgx", "github.com/jackc/pgx/v5/stdlib": "stdlib",
		"gopkg.in/yaml.v3": "yaml", "github.com/mattn/go-isatty": "isatty",
	} {
		assert.Equal(t, name, PackageName(path), path)
	}
}

func TestAddImport_IntoAFileWithoutAGroup(t *testing.T) {
	file := parsed(t, "package p\n")
	require.NoError(t, file.AddImport("fmt"))
	assert.Equal(t, "package p\n\nimport (\n\t\"fmt\"\n)\n", finished(t, file))

	file = parsed(t, "package p\n\nimport \"fmt\"\n\nvar _ = fmt.Sprint()\n")
	require.NoError(t, file.AddImport("errors"))
	assert.Equal(t, "package p\n\nimport (\n\t\"errors\"\n\t\"fmt\"\n)\n\nvar _ = fmt.Sprint()\n", finished(t, file))
}

func TestDropUnusedImports_OfSeveralDeclarations(t *testing.T) {
	file := parsed(t, "package p\n\nimport \"fmt\"\nimport \"time\"\n\nfunc f() { time.Now() }\n\nfunc g() { fmt.Println() }\n")
	require.NoError(t, file.RemoveDecl("func f"))
	require.NoError(t, file.DropUnusedImports())
	assert.Equal(t, "package p\n\nimport \"fmt\"\n\nfunc g() { fmt.Println() }\n", finished(t, file))
}

func TestDigest_CoversTheComment(t *testing.T) {
	one, err := parsed(t, before).Digest("method keeper.loop")
	require.NoError(t, err)
	other, err := parsed(t, strings.Replace(before, "loop loops", "loop runs", 1)).Digest("method keeper.loop")
	require.NoError(t, err)
	assert.NotEqual(t, one, other)
	_, err = parsed(t, before).Digest("method keeper.gone")
	assert.ErrorContains(t, err, "there is no method keeper.gone")
}

func TestPrepend_ToABodyOfAnySize(t *testing.T) {
	file := parsed(t, "package p\n\nfunc (r *repo) f() int {\n\t// why\n\treturn 1\n}\n\nfunc g() {}\n")
	require.NoError(t, file.Prepend("repo", "f", "if r == nil {\nreturn 0\n}"))
	require.NoError(t, file.Prepend("", "g", "h()"))
	assert.Equal(t, "package p\n\nfunc (r *repo) f() int {\n\tif r == nil {\n\t\treturn 0\n\t}\n\t// why\n\treturn 1\n}\n\nfunc g() {\n\th()\n}\n", finished(t, file))
	assert.ErrorContains(t, file.Prepend("", "f", ""), "p/p.go: there is no func f")
}

func TestWrapResult_WhereThereIsOne(t *testing.T) {
	file := parsed(t, `package p

func f(a bool) (any, error) {
	if a {
		return nil, errA
	}
	func() (any, error) { return inner, nil }()
	if b := (&t{1}); b.ok {
		return b, nil
	}
	return t{}, nil
}
`)
	assert.Equal(t, [][]string{{"nil", "errA"}, {"b", "nil"}, {"t{}", "nil"}}, file.Func("", "f").Returns())
	require.NoError(t, file.WrapResult("", "f", "wrap"))
	assert.Equal(t, [][]string{{"nil", "errA"}, {"wrap(b)", "nil"}, {"wrap(t{})", "nil"}}, file.Func("", "f").Returns())
	assert.Contains(t, finished(t, file), "return inner, nil")
	assert.ErrorContains(t, file.WrapResult("t", "f", "wrap"), "p/p.go: there is no method t.f")
}
