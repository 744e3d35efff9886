/* cmd_queue.h - between the files of urrctl queue. */
#ifndef CMD_QUEUE_H
#define CMD_QUEUE_H

struct cli;
struct queue_session;

/* Each returns the exit code, after saying why where it is not CLI_OK; argv[0] is the sub-command.
 */
int queue_change(struct queue_session *s, const struct cli *cli, int argc, char **argv);
int queue_audit(struct queue_session *s, const struct cli *cli, int argc, char **argv);

int queue_show(struct queue_session *s, const struct cli *cli, const char *event);
/* CLI_USAGE: no event's id; CLI_REFUSED: Redis has nothing of it. */
int queue_known(struct queue_session *s, const struct cli *cli, const char *event);

#endif
