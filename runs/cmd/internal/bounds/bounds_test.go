package bounds

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestBetween(t *testing.T) {
	for _, inside := range []int{1, 2, 3} {
		assert.NoError(t, Between("n", inside, 1, 3))
	}
	assert.EqualError(t, Between("n", 0, 1, 3), "n: 0 is not between 1 and 3")
	assert.EqualError(t, Between("n", 4, 1, 3), "n: 4 is not between 1 and 3")
	assert.EqualError(t, Between("rtt", time.Minute, 0, time.Second), "rtt: 1m0s is not between 0s and 1s")
	assert.EqualError(t, Between("rate", math.NaN(), 0, 1), "rate: NaN is not between 0 and 1")
}

func TestOneOf(t *testing.T) {
	assert.NoError(t, OneOf("mode", "b", []string{"a", "b"}))
	assert.EqualError(t, OneOf("mode", "c", []string{"a", "b"}), `mode: "c" is none of a, b`)
}

func TestDistinct(t *testing.T) {
	allowed := []string{"a", "b"}
	assert.NoError(t, Distinct("mode", []string{"b", "a"}, allowed))
	assert.EqualError(t, Distinct("mode", nil, allowed), "mode: none is given, there are a, b")
	assert.EqualError(t, Distinct("mode", []string{"a", "c"}, allowed), `mode: "c" is none of a, b`)
	assert.EqualError(t, Distinct("mode", []string{"a", "a"}, allowed), "mode: a is named twice; --repeat measures it again")
}
