/* pg_pool_lease.c - a connection for one transaction. The lease is its owner's memory: it outlives
 * the connection and the pool, and then refuses everything. */
#include "runtime/pg_pool_internal.h"

#include <stdio.h>
#include <stdlib.h>

#include "runtime/pg.h"

void pg_lease_give(struct pg_lease *lease, struct pg_link *l)
{
    lease->link = l;
    l->lease = lease;
}

void pg_lease_break(struct pg_lease *lease)
{
    lease->link->lease = NULL;
    lease->link = NULL;
    lease->pool = NULL;
}

int pg_lease_query(struct pg_lease *lease, const struct pg_stmt *stmt, const struct pg_params *p,
                   pg_answer_fn fn, void *arg, struct fault *f)
{
    if (!lease->link)
        return fault_set(f, RC_RETRY, "the transaction has lost its connection");
    if (lease->link->state != PG_LINK_IDLE)
        return fault_set(f, RC_REJECT, "a transaction's statements go one after the other");
    if (p && p->failed)
        return fault_set(f, RC_REJECT, "a parameter cannot be encoded");
    struct pg_call *c = pg_call_new(lease->timeout_ms, arg);
    if (!c)
        return fault_set(f, RC_RETRY, "no memory for a query");
    c->fn = fn;
    c->deadline_ms = lease->deadline_ms;
    c->begin = !lease->begun;
    c->commit = stmt == &PG_COMMIT;
    lease->begun = !c->commit; /* whatever comes after it is a transaction of its own */
    pg_link_send(lease->link, c, stmt, p);
    return 0;
}

int pg_lease_commit(struct pg_lease *lease, pg_answer_fn fn, void *arg, struct fault *f)
{
    return pg_lease_query(lease, &PG_COMMIT, NULL, fn, arg, f);
}

void pg_lease_end(struct pg_lease *lease)
{
    if (!lease)
        return;
    struct pg_pool *pool = lease->pool;
    if (lease->link) {
        pg_lease_break(lease);
        pg_pool_due(pool); /* the connection is rolled back and handed on from there */
    }
    free(lease);
}
