/* Records each function of the module that begins and ends, for paths.py.
 *
 * The module is compiled with -finstrument-functions, which makes the compiler call the two
 * functions below. The record is the file that LOCK_PATHS names, mapped into memory: paths.py reads
 * it while the server runs. Without LOCK_PATHS nothing is recorded.
 */
#define _POSIX_C_SOURCE 200809L /* ftruncate */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define NOT_RECORDED __attribute__((no_instrument_function))

/* How many events the file has room for; later ones are only counted. */
#define MOST_EVENTS 1000000

/* Native byte order. An event is the address of a function relative to `recordBase`, times two,
 * plus one if the function has ended. */
struct record {
    uint64_t count;
    uint64_t base;
    uint64_t events[MOST_EVENTS];
};

static struct record *record;

void __cyg_profile_func_enter(void *function, void *caller);
void __cyg_profile_func_exit(void *function, void *caller);

/* Its address in the library is known from the table of symbols. */
void recordBase(void);
NOT_RECORDED void recordBase(void) {
}

__attribute__((constructor)) NOT_RECORDED static void recordOpen(void) {
    const char *path = getenv("LOCK_PATHS");
    int file = path ? open(path, O_RDWR | O_CREAT, 0600) : -1;
    if (file < 0 || ftruncate(file, sizeof(struct record)) != 0) {
        return;
    }
    void *memory = mmap(NULL, sizeof(struct record), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    (void)close(file);
    if (memory != MAP_FAILED) {
        record = memory;
        record->base = (uint64_t)(uintptr_t)recordBase;
    }
}

NOT_RECORDED static void recordAdd(const void *function, unsigned has_ended) {
    if (record && record->count < MOST_EVENTS) {
        record->events[record->count++] =
            ((uint64_t)(uintptr_t)function - record->base) * 2 + has_ended;
    }
}

NOT_RECORDED void __cyg_profile_func_enter(void *function, void *caller) {
    (void)caller;
    recordAdd(function, 0);
}

NOT_RECORDED void __cyg_profile_func_exit(void *function, void *caller) {
    (void)caller;
    recordAdd(function, 1);
}
