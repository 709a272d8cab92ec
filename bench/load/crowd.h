/* Many connections at once, most of them blocked most of the time, and the next reply from any of
 * them. One thread, one epoll: what the crowd costs falls on this process, not on the server that
 * is measured. */

#ifndef BENCH_LOAD_CROWD_H
#define BENCH_LOAD_CROWD_H

#include "load/template.h"
#include "machine/server.h"

typedef struct Crowd Crowd;

Crowd *crowdOpen(const Server *server, unsigned size);
void crowdClose(Crowd *crowd);

void crowdSend(const Crowd *crowd, unsigned member, const Message *message);

/* The request that `text` stands for, by template.h, where `number` is both key and owner. */
void crowdSay(const Crowd *crowd, unsigned member, const char *text, unsigned number);

/* Waits for the next reply and returns whose it is. Dies on an error reply, a lost connection, or
 * when nothing comes for a long time: a hang is a bug to be seen. The caller frees *reply. */
unsigned crowdNext(Crowd *crowd, redisReply **reply);

/* Returns when the server has read everything that the crowd has sent so far: a request that
 * blocks gives no other sign. */
void crowdSettle(const Crowd *crowd);

#endif
