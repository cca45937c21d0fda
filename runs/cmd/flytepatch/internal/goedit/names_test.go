package goedit

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const named = `package p

const (
	// slots is a number.
	slots = 256

	patience = 3
)

const (
	one = iota
	two
)

var a, b = 1, 2

// alone has nobody.
var alone = one + two

func helper() { _ = x.slots }
`

func TestRemoveName(t *testing.T) {
	file := parsed(t, named)
	for name, want := range map[string]bool{"slots": true, "alone": true, "helper": true, "one": false, "two": false, "a": false} {
		assert.True(t, file.Declares(name), name)
		removed, err := file.RemoveName(name)
		require.NoError(t, err)
		assert.Equal(t, want, removed, name)
		assert.Equal(t, !want, file.Declares(name), name)
	}
	assert.Equal(t, `package p

const (
	patience = 3
)

const (
	one = iota
	two
)

var a, b = 1, 2
`, finished(t, file))
	_, err := file.RemoveName("slots")
	assert.ErrorContains(t, err, "p/p.go: there is no slots")
}

func TestUses(t *testing.T) {
	assert.Equal(t, map[string]bool{"helper": true, "_": true, "x": true, "slots": true}, parsed(t, named).Uses("func helper"))
}
