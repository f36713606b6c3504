package internal

// Keeps modules in go.mod while packages are being written. Delete once used.
import (
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/google/pprof/profile"
	_ "go.opentelemetry.io/proto/slim/otlp/collector/profiles/v1development"
	_ "golang.org/x/sys/unix"
	_ "google.golang.org/protobuf/proto"
)
