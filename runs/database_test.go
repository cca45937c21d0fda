package runs

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
)

func TestTheStartWaitsForWhatMayPass(t *testing.T) {
	for code, want := range map[string]bool{
		"08006": true, "25006": true, "53300": true, "57P03": true,
		"28P01": false, "3D000": false, "42501": false, "": false,
	} {
		assert.Equal(t, want, mayPass(fmt.Errorf("open: %w", &pgconn.PgError{Code: code})), code)
	}
	assert.True(t, mayPass(errors.New("connection refused")))
}
