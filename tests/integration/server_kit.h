/* server_kit.h - the servers that tests/harness has started, by the environment it gives. */
#ifndef SERVER_KIT_H
#define SERVER_KIT_H
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The variable's value; a missing one fails the test. */
static inline const char *need(const char *name)
{
    const char *value = getenv(name);
    if (!value)
        fail_msg("%s is not set: run me through tests/run integration", name);
    return value;
}

/* The same server by the name of its host instead of the address. */
static inline void server_by_name(const char *url, char *out, size_t size)
{
    const char *at = strstr(url, "127.0.0.1");
    assert_non_null(at);
    (void)snprintf(out, size, "%.*slocalhost%s", (int)(at - url), url, at + strlen("127.0.0.1"));
}

/* kill, freeze, thaw, start, restart one of them; returns when it is done. */
static inline void server_control(const char *action, const char *server)
{
    char command[512];
    (void)snprintf(command, sizeof command, "%s %s %s", need("URR_TEST_CONTROL"), action, server);
    assert_int_equal(system(command), 0);
}

#endif
