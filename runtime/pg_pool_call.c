/* pg_pool_call.c - a call's memory, its failures and its one callback. */
#include "runtime/pg_pool_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"

struct pg_call *pg_call_new(int64_t timeout_ms, void *arg)
{
    struct pg_call *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->timeout_ms = timeout_ms > 0 ? timeout_ms : 1;
    c->deadline_ms = clock_mono_ms() + c->timeout_ms;
    c->started_us = clock_mono_us();
    c->arg = arg;
    return c;
}

void pg_call_free(struct pg_call *c)
{
    if (!c)
        return;
    free((char *)c->stmt.name);
    free((char *)c->stmt.sql);
    pg_params_free(c->params);
    pg_result_free(c->result);
    free(c);
}

static size_t borrowed_bytes(const struct pg_params *p)
{
    size_t total = 0;
    for (int i = 0; p && i < p->count; i++)
        total += p->item[i].len;
    return total;
}

int pg_call_keep(struct pg_call *c, const struct pg_stmt *stmt, const struct pg_params *p,
                 size_t max_bytes, struct fault *f)
{
    if (strlen(stmt->sql) + borrowed_bytes(p) > max_bytes)
        return fault_set(f, RC_REJECT, "%s: more than %zu bytes", stmt->name ? stmt->name : "query",
                         max_bytes);
    c->stmt.name = stmt->name ? strdup(stmt->name) : NULL;
    c->stmt.sql = strdup(stmt->sql);
    c->params = p ? pg_params_dup(p) : NULL;
    if (!c->stmt.sql || (stmt->name && !c->stmt.name) || (p && !c->params))
        return fault_set(f, RC_RETRY, "no memory for a query");
    return 0;
}

void pg_call_fail(struct pg_call *c, const char *sqlstate, const char *message)
{
    if (c->error.class != PG_CLASS_NONE)
        return;
    c->error.class = pg_error_class(sqlstate);
    (void)snprintf(c->error.sqlstate, sizeof c->error.sqlstate, "%s", sqlstate);
    (void)fault_set(&c->fault, pg_error_rc(c->error.class), "%s%s%s (%s)", c->label,
                    c->label[0] ? ": " : "", message, sqlstate);
}

void pg_call_refuse(struct pg_call *c, const struct pg_result *r)
{
    if (c->error.class != PG_CLASS_NONE)
        return;
    const char *sqlstate = PQresultErrorField(r, PG_DIAG_SQLSTATE);
    const char *message = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);
    const char *constraint = PQresultErrorField(r, PG_DIAG_CONSTRAINT_NAME);
    char line[160];
    (void)snprintf(line, sizeof line, "%s", message ? message : PQresultErrorMessage(r));
    line[strcspn(line, "\n")] = '\0';
    pg_call_fail(c, sqlstate ? sqlstate : "08006", line);
    if (constraint)
        (void)snprintf(c->error.constraint, sizeof c->error.constraint, "%s", constraint);
}

static void fire_lease(struct pg_call *c, struct pg_answer *a)
{
    if (a->rc == 0 && !c->lease->link) { /* lost before its owner ever saw it */
        pg_call_fail(c, "08006", "connection lost");
        a->rc = c->fault.rc;
        a->error = c->error;
        a->text = c->fault.text;
    }
    if (a->rc != 0) {
        pg_lease_end(c->lease);
        c->lease = NULL;
    }
    c->lease_fn(c->lease, a, c->arg);
}

void pg_call_fire(struct pg_call *c)
{
    bool failed = c->error.class != PG_CLASS_NONE;
    struct pg_answer a = {.rc = failed ? c->fault.rc : 0,
                          .result = failed ? NULL : c->result,
                          .error = c->error,
                          .text = failed ? c->fault.text : ""};
    if (c->lease_fn)
        fire_lease(c, &a);
    else if (c->fn)
        c->fn(&a, c->arg);
    pg_call_free(c);
}

void pg_calls_append(struct pg_calls *list, struct pg_call *c)
{
    c->next = NULL;
    if (list->last)
        list->last->next = c;
    else
        list->first = c;
    list->last = c;
    list->count++;
}

struct pg_call *pg_calls_take(struct pg_calls *list)
{
    struct pg_call *c = list->first;
    if (!c)
        return NULL;
    list->first = c->next;
    if (!list->first)
        list->last = NULL;
    list->count--;
    return c;
}

int64_t pg_calls_expire(struct pg_calls *list, int64_t now_ms, struct pg_calls *out)
{
    int64_t earliest = 0;
    for (uint32_t left = list->count; left > 0; left--) {
        struct pg_call *c = pg_calls_take(list);
        bool late = c->deadline_ms <= now_ms;
        pg_calls_append(late ? out : list, c);
        if (!late && (earliest == 0 || c->deadline_ms < earliest))
            earliest = c->deadline_ms;
    }
    return earliest;
}
