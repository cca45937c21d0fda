// Package bounds checks the values of a command's flags. Its errors name the flag and what would be right; errors.Join makes one of
// several, and none of those that are nil.
package bounds

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Between requires low ≤ value ≤ high; NaN is between nothing.
func Between[T cmp.Ordered](flag string, value, low, high T) error {
	if value >= low && value <= high {
		return nil
	}
	return fmt.Errorf("%s: %v is not between %v and %v", flag, value, low, high)
}

// OneOf requires one of the allowed words.
func OneOf(flag, value string, allowed []string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("%s: %q is none of %s", flag, value, strings.Join(allowed, ", "))
}

// Distinct requires at least one of the allowed words, and none of them twice.
func Distinct(flag string, values, allowed []string) error {
	if len(values) == 0 {
		return fmt.Errorf("%s: none is given, there are %s", flag, strings.Join(allowed, ", "))
	}
	for i, value := range values {
		if err := OneOf(flag, value, allowed); err != nil {
			return err
		}
		if slices.Contains(values[:i], value) {
			return fmt.Errorf("%s: %s is named twice; --repeat measures it again", flag, value)
		}
	}
	return nil
}
