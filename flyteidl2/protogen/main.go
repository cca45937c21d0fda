// Command protogen turns the .proto files under flyteidl2/ into the Go code under gen/go/.
//
// It needs Go and nothing else: protocompile parses the files, the plugins are this module's tools (the versions are in
// go.mod), and the two imports that are not ours, google/rpc/status.proto and buf/validate/validate.proto, are taken from
// the descriptors inside the Go modules that the generated code compiles against. It is a module of its own so that nobody who
// uses the generated code has to depend on a parser.
//
// Run it through `make generate`, or through `make generate-check`, which changes nothing and fails when a file under gen/go/
// is not what would be generated.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	_ "buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/protoutil"
	"github.com/bufbuild/protocompile/reporter"
	_ "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	_ "google.golang.org/protobuf/types/known/durationpb"
	_ "google.golang.org/protobuf/types/known/timestamppb"
	_ "google.golang.org/protobuf/types/known/wrapperspb"
	"google.golang.org/protobuf/types/pluginpb"
)

const (
	protoFolder = "flyteidl2"
	outFolder   = "gen/go/flyteidl2"
	goModule    = "github.com/flyteorg/flyte/v2"
)

// plugins are run in this order, each over all files.
var plugins = []string{"protoc-gen-go", "protoc-gen-connect-go"}

func main() {
	root := flag.String("root", ".", "folder that holds flyteidl2/ and gen/")
	check := flag.Bool("check", false, "write nothing; fail when the generated files are not current")
	flag.Parse()
	if err := run(context.Background(), *root, *check); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, root string, check bool) error {
	names, err := protoFiles(root)
	if err != nil {
		return err
	}
	files, err := compile(ctx, root, names)
	if err != nil {
		return err
	}
	want := map[string][]byte{}
	for _, plugin := range plugins {
		if err := generate(ctx, plugin, names, files, want); err != nil {
			return err
		}
	}
	have, err := generatedFiles(root)
	if err != nil {
		return err
	}
	if check {
		return compare(have, want)
	}
	return write(root, have, want)
}

// protoFiles names our .proto files, relative to root, sorted.
func protoFiles(root string) ([]string, error) {
	var names []string
	err := fs.WalkDir(os.DirFS(root), protoFolder, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".proto") {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find .proto files: %w", err)
	}
	return names, nil
}

// compile parses, links and checks the named files. Warnings, such as an unused import, count as errors.
func compile(ctx context.Context, root string, names []string) (linker.Files, error) {
	var warnings []error
	fail := func(err reporter.ErrorWithPos) error { return err }
	warn := func(err reporter.ErrorWithPos) { warnings = append(warnings, err) }
	compiler := protocompile.Compiler{
		Resolver: protocompile.CompositeResolver{
			&protocompile.SourceResolver{ImportPaths: []string{root}},
			protocompile.ResolverFunc(linkedIn),
		},
		SourceInfoMode: protocompile.SourceInfoStandard,
		Reporter:       reporter.NewReporter(fail, warn),
	}
	files, err := compiler.Compile(ctx, names...)
	if err := errors.Join(append(warnings, err)...); err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	return files, nil
}

// linkedIn finds a file among those that this program's own imports brought along.
func linkedIn(path string) (protocompile.SearchResult, error) {
	file, err := protoregistry.GlobalFiles.FindFileByPath(path)
	if err != nil {
		return protocompile.SearchResult{}, err
	}
	return protocompile.SearchResult{Desc: file}, nil
}

// generate runs one plugin over all files and adds what it answers to out, by path relative to the root.
func generate(ctx context.Context, plugin string, names []string, files linker.Files, out map[string][]byte) error {
	request := &pluginpb.CodeGeneratorRequest{
		FileToGenerate: names,
		Parameter:      proto.String("module=" + goModule),
	}
	seen := map[string]bool{}
	for _, file := range files {
		appendWithImports(request, file, seen)
	}
	input, err := proto.MarshalOptions{Deterministic: true}.Marshal(request)
	if err != nil {
		return fmt.Errorf("encode request to %s: %w", plugin, err)
	}
	command := exec.CommandContext(ctx, "go", "tool", plugin)
	command.Stdin = bytes.NewReader(input)
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		return fmt.Errorf("run %s: %w", plugin, err)
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(output, &response); err != nil {
		return fmt.Errorf("decode response of %s: %w", plugin, err)
	}
	if response.GetError() != "" {
		return fmt.Errorf("%s: %s", plugin, response.GetError())
	}
	for _, file := range response.GetFile() {
		out[file.GetName()] = []byte(file.GetContent())
	}
	return nil
}

// appendWithImports adds a file after everything that it imports, as plugins want it.
func appendWithImports(request *pluginpb.CodeGeneratorRequest, file protoreflect.FileDescriptor, seen map[string]bool) {
	if seen[file.Path()] {
		return
	}
	seen[file.Path()] = true
	imports := file.Imports()
	for i := range imports.Len() {
		appendWithImports(request, imports.Get(i).FileDescriptor, seen)
	}
	request.ProtoFile = append(request.ProtoFile, protoutil.ProtoFromFileDescriptor(file))
}

// generatedFiles reads what is there, by path relative to root.
func generatedFiles(root string) (map[string][]byte, error) {
	have := map[string][]byte{}
	fsys := os.DirFS(root)
	err := fs.WalkDir(fsys, outFolder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		have[path], err = fs.ReadFile(fsys, path)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read generated files: %w", err)
	}
	return have, nil
}

func compare(have, want map[string][]byte) error {
	var stale []string
	for path, content := range want {
		if !bytes.Equal(have[path], content) {
			stale = append(stale, path)
		}
	}
	for path := range have {
		if _, ok := want[path]; !ok {
			stale = append(stale, path)
		}
	}
	if len(stale) == 0 {
		return nil
	}
	slices.Sort(stale)
	return fmt.Errorf("not current, run `make generate`:\n  %s", strings.Join(stale, "\n  "))
}

// write makes the folder hold what is wanted and nothing else.
func write(root string, have, want map[string][]byte) error {
	for _, path := range slices.Sorted(maps.Keys(want)) {
		target := filepath.Join(root, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(target, want[path], 0o644); err != nil {
			return err
		}
	}
	for path := range have {
		if _, ok := want[path]; ok {
			continue
		}
		if err := os.Remove(filepath.Join(root, filepath.FromSlash(path))); err != nil {
			return err
		}
	}
	return nil
}
