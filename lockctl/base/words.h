/* A command for a server: its words, which may contain any bytes. */
#ifndef LOCKCTL_WORDS_H
#define LOCKCTL_WORDS_H

#include <stddef.h>
#include <stdint.h>

#define WORDS_MOST 24
#define WORDS_NUMBERS 6

/* Empty when zeroed. The texts belong to the caller, and must stay until the command is sent. The
 * struct cannot be copied, because words that are numbers point into it. */
struct words {
    int count;
    const char *text[WORDS_MOST];
    size_t length[WORDS_MOST];
    char numbers[WORDS_NUMBERS][24];
    int numbers_used;
};

void wordsAdd(struct words *words, const char *text);
void wordsAddBytes(struct words *words, const char *bytes, size_t length);
/* At most WORDS_NUMBERS of them. */
void wordsAddNumber(struct words *words, int64_t number);

#endif
