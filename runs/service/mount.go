package service

import (
	"fmt"
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
)

// methods are the declared methods of a service by their URL path.
type methods map[string]protoreflect.MethodDescriptor

// methodsOf returns the methods of the service that is mounted at path.
func methodsOf(path string) methods {
	name := protoreflect.FullName(strings.Trim(path, "/"))
	descriptor, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		panic(fmt.Sprintf("service: %s is not among the generated code: %v", name, err))
	}
	declared := descriptor.(protoreflect.ServiceDescriptor).Methods()
	all := make(methods, declared.Len())
	for i := range declared.Len() {
		all[path+string(declared.Get(i).Name())] = declared.Get(i)
	}
	return all
}

// answerUnknown puts before next a handler that answers unimplemented, in the client's protocol, to every method that the .proto
// files do not declare. Generated handlers answer 404 to those, which looks like a wrong address.
func (m methods) answerUnknown(next http.Handler) http.Handler {
	errorWriter := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m[r.URL.Path] != nil {
			next.ServeHTTP(w, r)
			return
		}
		err := connect.NewError(connect.CodeUnimplemented, fmt.Errorf("%.200s is not implemented", r.URL.Path))
		if err := errorWriter.Write(w, r, err); err != nil {
			logger.Debugf(r.Context(), "answer to %.200q was not sent: %v", r.URL.Path, err)
		}
	})
}

// takesStream tells whether the client of the method at path sends any number of messages.
func (m methods) takesStream(path string) bool {
	return m[path] != nil && m[path].IsStreamingClient()
}
