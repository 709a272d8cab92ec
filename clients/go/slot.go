package lockso

import "strings"

// hashTag is the part of a key that determines its slot in a cluster, or "" if that is the whole key.
func hashTag(key string) string {
	_, rest, found := strings.Cut(key, "{")
	if tag, _, closed := strings.Cut(rest, "}"); found && closed {
		return tag
	}
	return ""
}
