package revision

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// Canonical is raw with keys sorted, nulls and empty maps dropped, no white space, and numbers as they were written.
// Lists keep their length and order: a null or an empty map inside a list stays.
// Empty input is the empty object. A key that occurs twice is an error: readers disagree about its meaning.
func Canonical(raw []byte) ([]byte, error) {
	value, err := parse(raw)
	if err != nil {
		return nil, err
	}
	return encode(prune(value))
}

// Object is raw as a Go value in canonical form: maps, lists, text, booleans and json.Number, for callers that compare
// field by field. Empty input and anything but an object is an error.
func Object(raw []byte) (map[string]any, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, errors.New("is empty")
	}
	value, err := parse(raw)
	if err != nil {
		return nil, err
	}
	object, ok := prune(value).(map[string]any)
	if !ok {
		return nil, errors.New("is not an object")
	}
	return object, nil
}

// Equal reports whether two raw values have the same canonical form. What cannot be read equals nothing.
func Equal(a, b []byte) bool {
	ca, errA := Canonical(a)
	cb, errB := Canonical(b)
	return errA == nil && errB == nil && bytes.Equal(ca, cb)
}

func parse(raw []byte) (any, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return map[string]any{}, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	value, err := decode(d)
	if err != nil {
		return nil, fmt.Errorf("reading JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("reading JSON: something follows the value")
	}
	return value, nil
}

// decode is json.Decoder.Decode into any, except that duplicate keys are refused.
func decode(d *json.Decoder) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		return decodeObject(d)
	case json.Delim('['):
		return decodeList(d)
	default:
		return token, nil
	}
}

func decodeObject(d *json.Decoder) (any, error) {
	object := map[string]any{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		key, ok := token.(string)
		if !ok {
			return nil, fmt.Errorf("key %v is not text", token)
		}
		if _, twice := object[key]; twice {
			return nil, fmt.Errorf("key %q occurs twice", key)
		}
		if object[key], err = decode(d); err != nil {
			return nil, err
		}
	}
	_, err := d.Token()
	return object, err
}

func decodeList(d *json.Decoder) (any, error) {
	list := []any{}
	for d.More() {
		value, err := decode(d)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	_, err := d.Token()
	return list, err
}

// prune drops nulls and empty maps from maps, from the leaves up.
func prune(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, child := range v {
			child = prune(child)
			if m, isMap := child.(map[string]any); child == nil || (isMap && len(m) == 0) {
				delete(v, key)
				continue
			}
			v[key] = child
		}
		return v
	case []any:
		for i := range v {
			v[i] = prune(v[i])
		}
		return v
	default:
		return value
	}
}

func encode(value any) ([]byte, error) {
	var b bytes.Buffer
	if err := write(&b, value); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func write(b *bytes.Buffer, value any) error {
	switch v := value.(type) {
	case map[string]any:
		return writeObject(b, v)
	case []any:
		b.WriteByte('[')
		for i, child := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := write(b, child); err != nil {
				return err
			}
		}
		b.WriteByte(']')
		return nil
	case json.Number:
		b.WriteString(v.String())
		return nil
	default:
		return writeScalar(b, v)
	}
}

func writeObject(b *bytes.Buffer, object map[string]any) error {
	b.WriteByte('{')
	for i, key := range slices.Sorted(maps.Keys(object)) {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := writeScalar(b, key); err != nil {
			return err
		}
		b.WriteByte(':')
		if err := write(b, object[key]); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

// writeScalar leaves <, > and & as they are: the canonical form is not for HTML.
func writeScalar(b *bytes.Buffer, value any) error {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	b.Truncate(b.Len() - 1) // the encoder's line feed
	return nil
}
