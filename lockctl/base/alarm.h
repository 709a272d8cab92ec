/* A timer of the event loop, in milliseconds, that can be set again. */
#ifndef LOCKCTL_ALARM_H
#define LOCKCTL_ALARM_H

#include <event2/event.h>
#include <stdint.h>

typedef void alarmRings(void *arg);

struct alarm {
    struct event *event;
    alarmRings *rings;
    void *arg;
};

/* Makes an alarm that is not set. To be freed by alarmFree, which may be called twice. */
void alarmInit(struct alarm *alarm, struct event_base *base, alarmRings *rings, void *arg);
void alarmFree(struct alarm *alarm);

/* Makes the alarm ring once, in `ms` from now, or at once if `ms` is not above 0. Replaces an
 * earlier setting. */
void alarmSet(struct alarm *alarm, int64_t ms);

/* Cancels the alarm. */
void alarmStop(struct alarm *alarm);

#endif
