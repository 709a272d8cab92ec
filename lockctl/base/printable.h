/* Names of locks and owners, which may contain any bytes, as readable text and as JSON. */
#ifndef LOCKCTL_PRINTABLE_H
#define LOCKCTL_PRINTABLE_H

#include <jansson.h>
#include <stddef.h>

/* Returns the bytes as text: bytes that the locale cannot print are written as \xNN, and a
 * backslash is doubled. To be freed by free(). */
char *printableText(const char *bytes, size_t length);

/* Returns how many columns of a terminal a text of printableText takes. */
size_t printableWidth(const char *text);

/* Returns as much of such a text as fits into `columns`; to be freed by free(). */
char *printableCut(const char *text, size_t columns);

/* Sets `field` of a JSON object to these bytes. JSON must be UTF-8: if the bytes are not, the value
 * is the text of printableText, and `field`_hex has the bytes. */
void printableSet(json_t *object, const char *field, const char *bytes, size_t length);

#endif
