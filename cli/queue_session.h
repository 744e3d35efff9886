/* queue_session.h - the waiting room's Redis for one command: calls that wait for their answer.
 *
 * urrctl acts on Redis by the daemons' own scripts (queue-core/room.h), not through a daemon's
 * admin API: each decision is atomic whoever makes it, it works while no daemon runs, and the audit
 * needs the log in Redis anyway. */
#ifndef QUEUE_SESSION_H
#define QUEUE_SESSION_H
#include <stdbool.h>
#include <stdint.h>

#include "queue-core/room.h"
#include "runtime/config.h"

struct cli;
struct queue_session;
struct redis_arg;
struct redisReply;

extern const struct config_item QUEUE_SESSION_SETTINGS[]; /* REDIS_URL and defaults of the daemon */

/* CLI_OK or the exit code, after saying why. Free with queue_session_close(), which accepts NULL.
 */
int queue_session_open(const struct cli *cli, struct queue_session **out);
void queue_session_close(struct queue_session *s);
struct room *queue_session_room(struct queue_session *s);

/* For callbacks of room calls: the answer is here, with its return code and text (copied). */
void queue_session_done(struct queue_session *s, int rc, const char *text);
/* Ends a call that returned rc (and *f): waits for queue_session_done(). CLI_OK or the exit code,
 * after saying why. */
int queue_session_wait(struct queue_session *s, int rc, const char *text);

/* One command; `fn` reads its answer. CLI_OK or the exit code, after saying why. */
typedef void (*queue_reply_fn)(const struct redisReply *reply, void *arg);
int queue_session_command(struct queue_session *s, const struct redis_arg *args, queue_reply_fn fn,
                          void *arg);

/* A view whose texts are the session's, good until the next look. */
int queue_session_look(struct queue_session *s, const char *event, struct room_view *out);

#endif
