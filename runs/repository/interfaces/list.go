package interfaces

import (
	"fmt"
	"slices"
	"time"
)

// MaxListLimit is the largest page, in rows.
const MaxListLimit = 10_000

// ListResourceInput says which page of which rows, in which order.
//
// There are two ways to page. Offset skips rows: any order, but each page costs the rows before it, and rows that appear meanwhile shift
// the pages. A keyset resumes after the last row seen: pages cost the same however far in, and a row that is there throughout
// is read exactly once. It wants the order (created_at, name) ascending and a RunScope in Filter, since only within a
// run is a name unique. A row whose created_at is moved back past the cursor while pages are read is not in them;
// whoever must not miss it watches too. Pages of the runs of many projects are made the same way with the order NewestFirst and the filter
// OlderThan.
type ListResourceInput struct {
	// Limit is the size of the page in rows, 1 to MaxListLimit. One more row is read, to tell whether another page follows.
	Limit int
	// Offset is the number of rows to skip, from 0.
	Offset int

	// KeysetAfterCreatedAt and KeysetAfterName are the last row of the page before: the page starts after it. Set both or neither.
	KeysetAfterCreatedAt *time.Time
	KeysetAfterName      string

	// Filter says which rows. The zero value is all of them.
	Filter Filter
	// SortParameters give the order; none means by phase, then newest first. Ties are always broken by run_name, then name.
	SortParameters []SortParameter
}

// Validate checks the bounds above; the error names the field.
func (in ListResourceInput) Validate() error {
	if in.Limit < 1 || in.Limit > MaxListLimit {
		return fmt.Errorf("limit: %d is not within 1 to %d", in.Limit, MaxListLimit)
	}
	if in.Offset < 0 {
		return fmt.Errorf("offset: %d is below 0", in.Offset)
	}
	if len(in.SortParameters) > maxSortParameters {
		return fmt.Errorf("sort parameters: %d are more than %d", len(in.SortParameters), maxSortParameters)
	}
	for i, p := range in.SortParameters {
		if _, allowed := columns[p.column]; !allowed {
			return fmt.Errorf("sort parameters[%d]: made without NewSortParameter", i)
		}
	}
	if in.KeysetAfterCreatedAt == nil && in.KeysetAfterName == "" {
		return nil
	}
	switch {
	case in.KeysetAfterCreatedAt == nil:
		return fmt.Errorf("keyset: a name without a created_at")
	case in.KeysetAfterName == "":
		return fmt.Errorf("keyset: a created_at without a name")
	case in.Offset != 0:
		return fmt.Errorf("keyset: offset is %d, the two exclude each other", in.Offset)
	case !slices.Equal(in.SortParameters, KeysetOrder()):
		return fmt.Errorf("keyset: the order must be created_at ascending, name ascending")
	}
	return nil
}
