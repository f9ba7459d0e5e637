// Command protogen writes the Go code of the plugin contracts, or with -check
// tells whether the committed code is what it would write.
//
//	protogen [-check] [-plugins DIR] FILE.proto...
//
// It runs at the root of the repository. The protobuf compiler is a Go
// library and the two generators are pinned beside it, so that nothing but
// Go is needed and every machine writes the same bytes.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/pluginpb"
)

// generatorTimeout bounds one run of a generator.
const generatorTimeout = time.Minute

// generators lists the programs that write code from a compiled file.
var generators = []string{"protoc-gen-go", "protoc-gen-go-grpc"}

func main() {
	check := flag.Bool("check", false, "compare with the committed code instead of writing it")
	plugins := flag.String("plugins", "bin/tools", "folder of the generators")
	flag.Parse()
	if err := run(context.Background(), *plugins, *check, flag.Args()); err != nil {
		fmt.Fprintf(os.Stderr, "protogen: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, plugins string, check bool, files []string) error {
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{}),
		SourceInfoMode: protocompile.SourceInfoStandard, // keeps the comments
	}
	compiled, err := compiler.Compile(ctx, files...)
	if err != nil {
		return err
	}
	use := write
	if check {
		use = compare
	}
	var errs []error
	for _, generator := range generators {
		response, err := generate(ctx, filepath.Join(plugins, generator), compiled)
		if err != nil {
			return fmt.Errorf("%s: %w", generator, err)
		}
		for _, file := range response.GetFile() {
			errs = append(errs, use(file.GetName(), []byte(file.GetContent())))
		}
	}
	return errors.Join(errs...)
}

// generate hands the files and all they import to a generator.
func generate(ctx context.Context, generator string, files linker.Files) (*pluginpb.CodeGeneratorResponse, error) {
	request := &pluginpb.CodeGeneratorRequest{Parameter: proto.String("paths=source_relative")}
	seen := map[string]bool{}
	for _, file := range files {
		request.FileToGenerate = append(request.FileToGenerate, file.Path())
		add(request, seen, file)
	}
	input, err := proto.Marshal(request)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, generatorTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, generator)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), os.Stderr
	output, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	response := new(pluginpb.CodeGeneratorResponse)
	if err := proto.Unmarshal(output, response); err != nil {
		return nil, err
	}
	if text := response.GetError(); text != "" {
		return nil, errors.New(text)
	}
	return response, nil
}

// add appends a file after what it imports, as generators want it.
func add(request *pluginpb.CodeGeneratorRequest, seen map[string]bool, file protoreflect.FileDescriptor) {
	if seen[file.Path()] {
		return
	}
	seen[file.Path()] = true
	imports := file.Imports()
	for i := range imports.Len() {
		add(request, seen, imports.Get(i).FileDescriptor)
	}
	request.ProtoFile = append(request.ProtoFile, protoutil.ProtoFromFileDescriptor(file))
}

func write(name string, content []byte) error {
	return os.WriteFile(name, content, 0o644)
}

func compare(name string, content []byte) error {
	old, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if !bytes.Equal(old, content) {
		return fmt.Errorf("%s is not what its .proto says; run `make generate`", name)
	}
	return nil
}
