/* See features.h. */
#include "core/features.h"

struct features features_counts;
