/* The unit tests' allocator, and the check that a test has freed what it allocated. */
#ifndef LOCK_TESTS_MEM_LIBC_H
#define LOCK_TESTS_MEM_LIBC_H

#include "core/mem.h"

/* A cmocka setup and teardown: there must be as many allocations after the test as before. What an
 * earlier, failed test has left behind does not make the next one fail. */
int memRecordLive(void **state);
int memAssertNothingLeft(void **state);

/* The row of a test in a group, with the check for memory that is left. */
#define UNIT(test) cmocka_unit_test_setup_teardown(test, memRecordLive, memAssertNothingLeft)

#endif
