/* See words.h. */
#include "base/words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void wordsAddBytes(struct words *words, const char *bytes, size_t length) {
    words->text[words->count] = bytes;
    words->length[words->count] = length;
    words->count++;
}

void wordsAdd(struct words *words, const char *text) {
    wordsAddBytes(words, text, strlen(text));
}

void wordsAddNumber(struct words *words, int64_t number) {
    char *room = words->numbers[words->numbers_used++];
    snprintf(room, sizeof(words->numbers[0]), "%" PRId64, number);
    wordsAdd(words, room);
}
