package config

import (
	"fmt"
	"strings"
)

// suggest returns " (did you mean …?)" when a known key is close to what was written, else nothing.
func (ks keys) suggest(path string) string {
	if near := ks.nearest(path, func(k *key) string { return k.path }); near != nil {
		return fmt.Sprintf(" (did you mean %s?)", near.path)
	}
	return ""
}

func (ks keys) suggestEnv(prefix, name string) string {
	if near := ks.nearest(name, func(k *key) string { return envName(k.path) }); near != nil {
		return fmt.Sprintf(" (did you mean %s%s?)", prefix, envName(near.path))
	}
	return ""
}

// nearest finds the key that is fewest edits away from what was written, case aside. More than a third of it wrong is another word.
func (ks keys) nearest(written string, name func(*key) string) *key {
	var near *key
	best := len(written)/3 + 1
	for _, k := range ks {
		if d := editDistance(strings.ToLower(written), strings.ToLower(name(k))); d < best {
			near, best = k, d
		}
	}

	return near
}

// editDistance counts the insertions, deletions and replacements that turn a into b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}

	return row[len(b)]
}
