package config

import (
	"fmt"
	"reflect"
	"strings"
)

type validator interface{ Validate() error }

func validate(cfg any, keys keys, problems *problems) {
	validateSection(&section{}, reflect.ValueOf(cfg), keys, problems)
}

func validateSection(s *section, p reflect.Value, keys keys, problems *problems) {
	if v, ok := p.Interface().(validator); ok {
		for _, err := range parts(v.Validate()) {
			problems.add(locate(s.prefix, err, keys))
		}
		return
	}

	for i := range p.Elem().NumField() {
		if field := p.Elem().Type().Field(i); field.Type.Kind() == reflect.Struct {
			validateSection(s.inner(field), p.Elem().Field(i).Addr(), keys, problems)
		}
	}
}

// parts takes apart what errors.Join put together, at any depth.
func parts(err error) (all []error) {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	for _, part := range joined.Unwrap() {
		all = append(all, parts(part)...)
	}
	return all
}

// locate completes the error of a section with the section's path and, where the field was set by somebody, the source.
func locate(prefix string, err error, keys keys) error {
	field, _, _ := strings.Cut(err.Error(), ":")
	k := keys.byPath(prefix + field)
	switch {
	case k == nil || k.source == "":
		return fmt.Errorf("%s%w", prefix, err)
	default:
		return fmt.Errorf("%s%w (%s)", prefix, err, k.source)
	}
}
