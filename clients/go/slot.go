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

// slotOf is the slot of a key in a cluster: the CRC-16 (XMODEM) of its hash tag.
func slotOf(key string) uint16 {
	if tag := hashTag(key); tag != "" {
		key = tag
	}
	var crc uint16
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc % 16384
}
