/* See alarm.h. */
#include "base/alarm.h"

#include <stddef.h>

#include "base/failure.h"

static void onTime(evutil_socket_t fd, short what, void *arg) {
    const struct alarm *alarm = arg;
    (void)fd;
    (void)what;
    alarm->rings(alarm->arg);
}

void alarmInit(struct alarm *alarm, struct event_base *base, alarmRings *rings, void *arg) {
    *alarm = (struct alarm){.rings = rings, .arg = arg};
    alarm->event = evtimer_new(base, onTime, alarm);
    if (!alarm->event) {
        failureExit(FAILURE_SYSTEM, "cannot create a timer");
    }
}

void alarmFree(struct alarm *alarm) {
    if (alarm->event) {
        event_free(alarm->event);
        alarm->event = NULL;
    }
}

void alarmSet(struct alarm *alarm, int64_t ms) {
    ms = ms > 0 ? ms : 0;
    const struct timeval after = {.tv_sec = ms / 1000, .tv_usec = (ms % 1000) * 1000};
    /* libevent counts from when it began to call back. That may be long ago: looking at very many
     * processes takes time. */
    event_base_update_cache_time(event_get_base(alarm->event));
    evtimer_add(alarm->event, &after);
}

void alarmStop(struct alarm *alarm) {
    evtimer_del(alarm->event);
}
