/* The unit tests' allocator, and the check that what a test allocated is gone when it ends. */
#ifndef LOCK_TESTS_MEM_LIBC_H
#define LOCK_TESTS_MEM_LIBC_H

#include "core/mem.h"

/* A cmocka setup and teardown: the test must leave as many allocations as it found. What an earlier
 * test that failed has left behind is not counted against the next one. */
int memNoteLive(void **state);
int memAssertNothingLeft(void **state);

/* The row of a test in a group: none may leave memory behind. */
#define UNIT(test) cmocka_unit_test_setup_teardown(test, memNoteLive, memAssertNothingLeft)

#endif
