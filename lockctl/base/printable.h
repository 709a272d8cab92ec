/* Names of locks and owners, which may have any bytes, for people and for programs. */
#ifndef LOCKCTL_PRINTABLE_H
#define LOCKCTL_PRINTABLE_H

#include <jansson.h>
#include <stddef.h>

/* What can be shown of the bytes: what the locale cannot print is written \xNN, and a backslash twice. To
 * be freed by free(). */
char *printableText(const char *bytes, size_t length);

/* How many columns of a terminal the text of printableText takes. */
size_t printableWidth(const char *text);

/* Of such a text as much as fits into so many columns; to be freed by free(). */
char *printableCut(const char *text, size_t columns);

/* Sets `field` of a JSON object to these bytes. If they are no UTF-8, which JSON has to be, it is
 * the text of printableText, and `field`_hex has the bytes. */
void printableSet(json_t *object, const char *field, const char *bytes, size_t length);

#endif
