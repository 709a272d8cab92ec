/* A timer of the event loop that can be set anew, in milliseconds. */
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

/* An alarm that is not set. To be freed by alarmFree, which may be called twice. */
void alarmInit(struct alarm *alarm, struct event_base *base, alarmRings *rings, void *arg);
void alarmFree(struct alarm *alarm);

/* Rings once, in `ms` from now on, at once if that is not above 0; what was set before is forgotten. */
void alarmSet(struct alarm *alarm, int64_t ms);

/* Does not ring. */
void alarmStop(struct alarm *alarm);

#endif
