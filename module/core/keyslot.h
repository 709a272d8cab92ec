/* The cluster slot of a key.
 *
 * https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#key-distribution-model
 */
#ifndef LOCK_KEYSLOT_H
#define LOCK_KEYSLOT_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the name has a hash tag, which is at least one byte between the first `{` of the name and
 * the first `}` after it. */
bool keyslotHasTag(const char *name, size_t length);

/* The slot, from 0 to 16383. It is the hash of the name's hash tag, or of the whole name if it has
 * none. Reads each byte once. */
int keyslotOf(const char *name, size_t length);

#endif
