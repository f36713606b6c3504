// Package otlp turns profiles into OTLP export requests and back, in the
// protocol version v1development (opentelemetry-proto 1.10 and later).
//
// One profile becomes one OTLP Profile for each of its value types, since OTLP
// allows one type per Profile and Pyroscope one value per sample. Package
// otlpcheck holds the rules of the format that no receiver checks.
package otlp

import "google.golang.org/protobuf/encoding/protowire"

// Scope says which span the link of a sample names.
type Scope int

const (
	ScopeAll  Scope = iota // the span that was current
	ScopeRoot              // its local root
)

// Options of [Encode]. The zero Options link to the exact span.
type Options struct {
	Scope Scope
	// Pyroscope makes a request fit for Pyroscope, where each distinct set of
	// attributes is a series of its own and Grafana joins on local roots: links
	// as with ScopeRoot, no thread ids.
	Pyroscope bool
	// Version of spanflame, for the instrumentation scope. May be empty.
	Version string
}

// Attributes of a sample that say more than its link.
const (
	attrRoot      = "spanflame.local_root.span_id" // 16 hexadecimal digits
	attrSpanName  = "span_name"                    // of the local root
	attrFrameType = "profile.frame.type"           // of a location
	attrPID       = "process.pid"                  // of the resource
)

const scopeName = "spanflame"

// Field numbers of opentelemetry-proto, named message_field.
const (
	requestResourceProfiles protowire.Number = 1
	requestDictionary       protowire.Number = 2

	resourceProfilesResource protowire.Number = 1
	resourceProfilesScopes   protowire.Number = 2
	resourceAttributes       protowire.Number = 1
	resourceDropped          protowire.Number = 2
	scopeProfilesScope       protowire.Number = 1
	scopeProfilesProfiles    protowire.Number = 2
	scopeNameField           protowire.Number = 1
	scopeVersion             protowire.Number = 2

	dictMappings   protowire.Number = 1
	dictLocations  protowire.Number = 2
	dictFunctions  protowire.Number = 3
	dictLinks      protowire.Number = 4
	dictStrings    protowire.Number = 5
	dictAttributes protowire.Number = 6
	dictStacks     protowire.Number = 7

	profileType       protowire.Number = 1
	profileSamples    protowire.Number = 2
	profileTime       protowire.Number = 3
	profileDuration   protowire.Number = 4
	profilePeriodType protowire.Number = 5
	profilePeriod     protowire.Number = 6

	sampleStack      protowire.Number = 1
	sampleAttributes protowire.Number = 2
	sampleLink       protowire.Number = 3
	sampleValues     protowire.Number = 4
	sampleTimestamps protowire.Number = 5

	stackLocations     protowire.Number = 1
	locationAddress    protowire.Number = 2
	locationLines      protowire.Number = 3
	locationAttributes protowire.Number = 4
	lineFunction       protowire.Number = 1
	lineLine           protowire.Number = 2
	functionName       protowire.Number = 1
	functionFile       protowire.Number = 3
	functionStart      protowire.Number = 4
	linkTrace          protowire.Number = 1
	linkSpan           protowire.Number = 2
	valueTypeType      protowire.Number = 1
	valueTypeUnit      protowire.Number = 2

	attributeKey   protowire.Number = 1 // KeyValueAndUnit
	attributeValue protowire.Number = 2

	keyValueKey   protowire.Number = 1 // KeyValue
	keyValueValue protowire.Number = 2
	keyValueRef   protowire.Number = 3

	anyString protowire.Number = 1
	anyBool   protowire.Number = 2
	anyInt    protowire.Number = 3
	anyDouble protowire.Number = 4
	anyArray  protowire.Number = 5
	anyRef    protowire.Number = 8
)
