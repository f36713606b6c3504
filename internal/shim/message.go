package shim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// maxMessage bounds a message's JSON; the shim keeps to the same.
const maxMessage = 64 << 10

var errTooLong = errors.New("message longer than 64 KiB")

// envelope is what every message starts with.
type envelope struct {
	Type        string `json:"type"`
	ShimVersion string `json:"version"`
}

type registration struct {
	envelope
	Hello
	Token string   `json:"token"`
	Files []string `json:"files"` // what the descriptors are, in order
}

func decodeRegistration(body []byte) (*registration, error) {
	// The rest of another version's registration need not mean what ours does.
	var head envelope
	if err := json.Unmarshal(body, &head); err != nil {
		return nil, fmt.Errorf("decode registration: %w", err)
	}
	if head.Type != "register" {
		return nil, fmt.Errorf("first message is %q, not a registration", head.Type)
	}
	reg := &registration{}
	if err := json.Unmarshal(body, reg); err != nil && head.ShimVersion == Version {
		return nil, fmt.Errorf("decode registration: %w", err)
	}
	return reg, nil
}

func decodeMessage(body []byte) (Message, error) {
	var head envelope
	if err := json.Unmarshal(body, &head); err != nil {
		return nil, fmt.Errorf("decode message: %w", err)
	}
	var message Message
	switch head.Type {
	case "otel":
		message = &OtelMessage{}
	case "resource":
		message = &ResourceMessage{}
	case "error":
		message = &ErrorMessage{}
	default:
		return nil, fmt.Errorf("decode message: unknown type %q", head.Type)
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber() // a float64 would round the integers of a resource
	if err := decoder.Decode(message); err != nil {
		return nil, fmt.Errorf("decode %s message: %w", head.Type, err)
	}
	if resource, ok := message.(*ResourceMessage); ok {
		resource.Attributes = plainAttributes(resource.Attributes)
	}
	return message, nil
}

// plainAttributes keeps what an OpenTelemetry attribute can be.
func plainAttributes(decoded map[string]any) map[string]any {
	plain := make(map[string]any, len(decoded))
	for key, value := range decoded {
		if list, ok := value.([]any); ok {
			items := make([]any, 0, len(list))
			for _, item := range list {
				if item = plainValue(item); item != nil {
					items = append(items, item)
				}
			}
			plain[key] = items
		} else if value = plainValue(value); value != nil {
			plain[key] = value
		}
	}
	return plain
}

func plainValue(value any) any {
	switch value := value.(type) {
	case string, bool:
		return value
	case json.Number:
		if i, err := strconv.ParseInt(value.String(), 10, 64); err == nil {
			return i
		}
		if f, err := value.Float64(); err == nil {
			return f
		}
	}
	return nil
}
