package imagediff

import (
	"fmt"
	"slices"
)

// metadata collects the changes of labels, annotations and finalizers. Everything else in a template's metadata is
// ignored by Kubernetes too, but a change of it is refused rather than lost.
func (d *diff) metadata(older, newer object) error {
	oldMeta, err := child(older, "metadata")
	if err != nil {
		return err
	}
	newMeta, err := child(newer, "metadata")
	if err != nil {
		return err
	}
	d.fields("metadata.", oldMeta, newMeta, "labels", "annotations", "finalizers", "creationTimestamp")
	if d.change.Metadata.Labels, err = texts(oldMeta, newMeta, "labels"); err != nil {
		return err
	}
	if d.change.Metadata.Annotations, err = texts(oldMeta, newMeta, "annotations"); err != nil {
		return err
	}
	return d.finalizers(oldMeta, newMeta)
}

// texts is the change of one map of texts; nil when there is none.
func texts(older, newer object, key string) (map[string]*string, error) {
	was, err := textMap(older, key)
	if err != nil {
		return nil, err
	}
	is, err := textMap(newer, key)
	if err != nil {
		return nil, err
	}
	var changed map[string]*string
	set := func(k string, v *string) {
		if changed == nil {
			changed = map[string]*string{}
		}
		changed[k] = v
	}
	for k := range was {
		if _, stays := is[k]; !stays {
			set(k, nil)
		}
	}
	for k, v := range is {
		if w, had := was[k]; !had || w != v {
			set(k, new(v))
		}
	}
	return changed, nil
}

func textMap(meta object, key string) (map[string]string, error) {
	m, err := child(meta, key)
	if err != nil {
		return nil, fmt.Errorf("metadata.%w", err)
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		text, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("metadata.%s[%s] is not text", key, k)
		}
		out[k] = text
	}
	return out, nil
}

func (d *diff) finalizers(older, newer object) error {
	was, err := textList(older, "finalizers")
	if err != nil {
		return err
	}
	is, err := textList(newer, "finalizers")
	if err != nil {
		return err
	}
	for _, f := range is {
		if !slices.Contains(was, f) {
			d.change.Metadata.AddFinalizers = append(d.change.Metadata.AddFinalizers, f)
		}
	}
	for _, f := range was {
		if !slices.Contains(is, f) {
			d.change.Metadata.RemoveFinalizers = append(d.change.Metadata.RemoveFinalizers, f)
		}
	}
	return nil
}

func textList(meta object, key string) ([]string, error) {
	if meta[key] == nil {
		return nil, nil
	}
	list, ok := meta[key].([]any)
	if !ok {
		return nil, fmt.Errorf("metadata.%s is not a list", key)
	}
	out := make([]string, 0, len(list))
	for _, v := range list {
		text, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("metadata.%s has an entry that is not text", key)
		}
		out = append(out, text)
	}
	return out, nil
}
