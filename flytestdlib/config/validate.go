package config

import (
	"fmt"
	"reflect"
	"strings"
)

type validator interface{ Validate() error }

func validate(cfg any, keys keys, problems *problems) {
	validateSection("", reflect.ValueOf(cfg), keys, problems)
}

func validateSection(prefix string, p reflect.Value, keys keys, problems *problems) {
	if section, ok := p.Interface().(validator); ok {
		for _, err := range parts(section.Validate()) {
			problems.add(locate(prefix, err, keys))
		}
		return
	}

	section := p.Elem()
	for i := range section.NumField() {
		if field := section.Type().Field(i); field.Type.Kind() == reflect.Struct {
			validateSection(sectionPrefix(prefix, field), section.Field(i).Addr(), keys, problems)
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
