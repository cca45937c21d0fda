package goedit

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRenameNames_NotWhatIsSelected(t *testing.T) {
	file := parsed(t, "package p\n\nimport \"a/slots\"\n\nconst twice = 2 * slots\n\nfunc f() {\n\tx.slots(slots, key.slots, key(slots).key)\n}\n")
	require.NoError(t, file.RenameNames(map[string]string{"slots": "places", "key": "keyOf"}))
	assert.Equal(t, "package p\n\nimport \"a/slots\"\n\nconst twice = 2 * places\n\nfunc f() {\n\tx.slots(places, keyOf.slots, keyOf(places).key)\n}\n", finished(t, file))
}

func TestRenameNames_RefusesWhatTheFileDeclares(t *testing.T) {
	file := parsed(t, "package p\n\nconst slots = 2\n")
	require.NoError(t, file.RenameNames(map[string]string{"slots": "places"}))
	_, err := file.Finish()
	assert.ErrorContains(t, err, "p/p.go: something outside")
}

func TestAssertOther(t *testing.T) {
	file := parsed(t, "package p\n\nfunc f() {\n\t_ = x.(*repo).y.(*repo)\n\t_ = x.(*other)\n\tswitch x.(type) {\n\tcase *repo:\n\t}\n}\n\nfunc  g( ) {}\n")
	require.NoError(t, file.AssertOther("repo", "wrapped", "repo"))
	assert.Equal(t, "package p\n\nfunc f() {\n\t_ = x.(*wrapped).repo.y.(*wrapped).repo\n\t_ = x.(*other)\n\tswitch x.(type) {\n\tcase *repo:\n\t}\n}\n\nfunc  g( ) {}\n", finished(t, file))
}
