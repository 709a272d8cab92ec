/* cmocka, the headers that must be included before it, and this project's helpers. */
#ifndef LOCK_TESTS_UNIT_H
#define LOCK_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fuzz.h"
#include "mem_libc.h"

#define LENGTH_OF(array) (sizeof(array) / sizeof((array)[0]))

#endif
