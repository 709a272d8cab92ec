/* Many connections at once, most of them blocked most of the time, and the next reply from any of
 * them. One thread and one epoll set: the crowd costs this process CPU, not the server that is
 * measured. */

#ifndef BENCH_LOAD_CROWD_H
#define BENCH_LOAD_CROWD_H

#include "load/template.h"
#include "machine/server.h"

typedef struct Crowd Crowd;

Crowd *crowdOpen(const Server *server, unsigned size);
void crowdClose(Crowd *crowd);

void crowdSend(const Crowd *crowd, unsigned member, const Message *message);

/* Sends the request of `text`, see template.h; `number` is both key and owner. */
void crowdSay(const Crowd *crowd, unsigned member, const char *text, unsigned number);

/* Waits for the next reply and returns the number of the member that received it. Ends the run on
 * an error reply, on a lost connection, or if no reply comes for a long time: a hang is a bug that
 * must be reported. The caller frees *reply. */
unsigned crowdNext(Crowd *crowd, redisReply **reply);

/* Returns when the server has read everything that the crowd has sent so far: a request that
 * blocks gets no reply that would show it. */
void crowdSettle(const Crowd *crowd);

#endif
