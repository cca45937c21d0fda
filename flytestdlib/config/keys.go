package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// key is one value of the configuration: a leaf field of the struct.
type key struct {
	path    string
	desc    string
	section *section
	enum    []string
	secret  bool
	initial string

	// flag is --path; its value, which every source goes through, is the field.
	flag *pflag.Flag
	// source says where the field's value is from; empty while it is the default.
	source string
}

type keys []*key

// section is a struct within the configuration.
type section struct {
	// prefix is what the paths inside begin with: empty, or ending in a dot.
	prefix string
	desc   string
}

// keysOf lists the leaves of the struct that cfg points to, in the order of the fields. A struct that does not keep the
// rules of the package comment is a fault of the program and panics.
func keysOf(cfg any) keys {
	v := reflect.ValueOf(cfg)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		panic(fmt.Sprintf("config: %T is no pointer to a struct", cfg))
	}

	return appendKeys(nil, &section{}, v.Elem())
}

func appendKeys(ks keys, in *section, v reflect.Value) keys {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if field.Tag.Get("yaml") == "" || !field.IsExported() {
			panic(fmt.Sprintf("config: field %s of %s is unexported or has no yaml tag", field.Name, v.Type()))
		}

		if field.Type.Kind() == reflect.Struct {
			ks = appendKeys(ks, in.inner(field), v.Field(i))
			continue
		}
		k := newKey(in.prefix+field.Tag.Get("yaml"), field, v.Field(i))
		k.section = in
		ks = append(ks, k)
	}

	return ks
}

// inner is the section that a struct field makes within s.
func (s *section) inner(field reflect.StructField) *section {
	name := field.Tag.Get("yaml")
	if name == ",inline" {
		return s
	}
	return &section{prefix: s.prefix + name + ".", desc: field.Tag.Get("desc")}
}

func newKey(path string, field reflect.StructField, v reflect.Value) *key {
	k := &key{
		path:   path,
		desc:   field.Tag.Get("desc"),
		secret: field.Tag.Get("secret") == "true",
		flag:   flagOf(path, v),
	}
	if k.desc == "" {
		panic(fmt.Sprintf("config: %s has no desc tag", path))
	}
	if enum := field.Tag.Get("enum"); enum != "" {
		k.enum = strings.Split(enum, ",")
	}
	k.initial = k.flag.Value.String()

	return k
}

// flagOf makes the flag that writes to the field.
func flagOf(path string, v reflect.Value) *pflag.Flag {
	var flags pflag.FlagSet
	switch p := pointerTo(v).(type) {
	case *string:
		flags.StringVar(p, path, *p, "")
	case *bool:
		flags.BoolVar(p, path, *p, "")
	case *int:
		flags.IntVar(p, path, *p, "")
	case *int64:
		flags.Int64Var(p, path, *p, "")
	case *uint32:
		flags.Uint32Var(p, path, *p, "")
	case *float64:
		flags.Float64Var(p, path, *p, "")
	case *time.Duration:
		flags.DurationVar(p, path, *p, "")
	default:
		panic(fmt.Sprintf("config: %s has the unsupported type %s", path, v.Type()))
	}

	return flags.Lookup(path)
}

// pointerTo returns the address of a field as a pointer to its underlying basic type, so that a named string is a string
// here. A duration is named too, but has a notation of its own.
func pointerTo(v reflect.Value) any {
	if p, ok := v.Addr().Interface().(*time.Duration); ok {
		return p
	}
	basic := map[reflect.Kind]reflect.Type{
		reflect.String: reflect.TypeFor[*string](), reflect.Bool: reflect.TypeFor[*bool](),
		reflect.Int: reflect.TypeFor[*int](), reflect.Int64: reflect.TypeFor[*int64](),
		reflect.Uint32: reflect.TypeFor[*uint32](), reflect.Float64: reflect.TypeFor[*float64](),
	}
	if t, ok := basic[v.Kind()]; ok {
		return v.Addr().Convert(t).Interface()
	}

	return nil
}

// set gives the key a value; the error names the key, the value and the source. (A secret is text, and any text will do.)
func (k *key) set(value, source string) error {
	if k.enum != nil && !slices.Contains(k.enum, value) {
		return fmt.Errorf("%s: %q is none of %s (%s)", k.path, value, strings.Join(k.enum, ", "), source)
	}
	if err := k.flag.Value.Set(value); err != nil {
		return fmt.Errorf("%s: %q is no %s (%s)", k.path, value, k.typeName(), source)
	}
	k.source = source

	return nil
}

// typeName tells a reader what to write.
func (k *key) typeName() string {
	switch t := k.flag.Value.Type(); t {
	case "string":
		return "text"
	case "bool":
		return "true or false"
	case "duration":
		return "duration such as 500ms, 30s or 5m"
	case "float64":
		return "number"
	default:
		return "whole number"
	}
}

func (ks keys) byPath(path string) *key {
	return ks.find(func(k *key) bool { return k.path == path })
}

func (ks keys) byEnv(name string) *key {
	return ks.find(func(k *key) bool { return envName(k.path) == name })
}

func (ks keys) find(is func(*key) bool) *key {
	if i := slices.IndexFunc(ks, is); i >= 0 {
		return ks[i]
	}
	return nil
}

// isSection tells whether path is the beginning of other keys' paths.
func (ks keys) isSection(path string) bool {
	return ks.find(func(k *key) bool { return strings.HasPrefix(k.path, path+".") }) != nil
}

// envName is the name of a key's variable without the program's prefix.
func envName(path string) string {
	return strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}
