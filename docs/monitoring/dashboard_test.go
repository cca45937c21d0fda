// Package monitoring_test checks what an operator imports: the dashboard and the alert rules.
package monitoring_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// classic is the form of a dashboard that every Grafana imports; the one that the package prefers is understood from version 12 on.
//
//lint:ignore SA1019 see above
type classic = dashboard.Dashboard

// readDashboard reads the dashboard by Grafana's own schema, field by field.
func readDashboard(t *testing.T) classic {
	t.Helper()
	plugins.RegisterDefaultPlugins()
	raw, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	var strict, d classic
	unknown := strict.UnmarshalJSONStrict(raw)
	require.NoError(t, json.Unmarshal(raw, &d)) // what was read strictly can be incomplete
	for _, err := range []error{unknown, d.Validate()} {
		var found cog.BuildErrors
		if errors.As(err, &found) && len(found) == 0 { // the package's way of saying that there is none, at times
			continue
		}
		require.NoError(t, err)
	}
	return d
}

// expressions are the queries of the dashboard's panels and annotations, by where they stand.
func expressions(t *testing.T, d classic) map[string]string {
	t.Helper()
	type query struct {
		Expr string `json:"expr"`
	}
	all := map[string]string{}
	for _, p := range d.Panels {
		if p.Panel == nil {
			continue
		}
		for _, target := range p.Panel.Targets {
			var q query
			remarshal(t, target, &q)
			require.NotEmpty(t, q.Expr, *p.Panel.Title)
			all[*p.Panel.Title+": "+q.Expr] = q.Expr
		}
	}
	for _, a := range d.Annotations.List {
		if a.Expr != nil {
			all[a.Name] = *a.Expr
		}
	}
	return all
}

func TestTheDashboardCanBeImported(t *testing.T) {
	d := readDashboard(t)
	require.NotNil(t, d.Uid)
	assert.Equal(t, "flyte-runs-notify", *d.Uid, "links and later versions find it by this")
	assert.Nil(t, d.Id, "that belongs to one Grafana")

	var variables []string
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
	}
	assert.Equal(t, []string{"datasource", "job", "instance"}, variables)

	ids := map[uint32]bool{}
	taken := map[[2]uint32]string{}
	for _, p := range d.Panels {
		id, grid, title := p.RowPanel, (*dashboard.GridPos)(nil), ""
		if id != nil {
			assert.False(t, ids[id.Id])
			ids[id.Id], grid, title = true, id.GridPos, *id.Title
		} else {
			require.NotNil(t, p.Panel.Id)
			assert.False(t, ids[*p.Panel.Id])
			ids[*p.Panel.Id], grid, title = true, p.Panel.GridPos, *p.Panel.Title
			assert.NotEmpty(t, p.Panel.Description, title)
			assert.Equal(t, "${datasource}", *p.Panel.Datasource.Uid, title)
		}
		require.LessOrEqual(t, grid.X+grid.W, uint32(24), title)
		for x := grid.X; x < grid.X+grid.W; x++ {
			for y := grid.Y; y < grid.Y+grid.H; y++ {
				assert.Empty(t, taken[[2]uint32{x, y}], "%s lies over it", title)
				taken[[2]uint32{x, y}] = title
			}
		}
	}
	for where, expr := range expressions(t, d) {
		assert.Contains(t, expr, "$instance", where)
		if !strings.HasPrefix(expr, "ALERTS") {
			assert.Contains(t, expr, "$job", where)
		}
	}
}
