/* The requests. */

#include "readers.h"

#define END \
    { NULL, NULL }

const Step readersOnOne[] = {{"LOCK.RWREAD lock r{owner}" READERS_HOUR, "1"}, END};
const Step readersOnEach[] = {
    {"LOCK.RWREAD {key} 0{owner}" READERS_HOUR, "1"},
    {"LOCK.RWREAD {key} 1{owner}" READERS_HOUR, "1"},
    {"LOCK.RWREAD {key} 2{owner}" READERS_HOUR, "1"},
    {"LOCK.RWREAD {key} 3{owner}" READERS_HOUR, "1"},
    {"LOCK.RWREAD {key} 4{owner}" READERS_HOUR, "1"},
    {"LOCK.RWREAD {key} 5{owner}" READERS_HOUR, "1"},
    {"LOCK.RWREAD {key} 6{owner}" READERS_HOUR, "1"},
    {"LOCK.RWREAD {key} 7{owner}" READERS_HOUR, "1"},
    {"LOCK.RWREAD {key} 8{owner}" READERS_HOUR, "1"},
    {"LOCK.RWREAD {key} 9{owner}" READERS_HOUR, "1"},
    END,
};
