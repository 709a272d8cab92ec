/* See features.h. */
#include "core/features.h"

size_t features_count;
