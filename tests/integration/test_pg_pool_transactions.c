/* Transactions on leased connections of the pool, and a storm that must break none of them in two.
 */
#include "pg_pool_kit.h"

static void put(struct bench *b, int64_t id)
{
    assert_int_equal(lease_put(b, id), 0);
    run_until(b, all_called);
}

static void commit(struct bench *b)
{
    struct fault f;
    assert_int_equal(pg_lease_commit(b->lease, on_answer, b, &f), 0);
    b->accepted++;
    run_until(b, all_called);
}

static void a_committed_transaction_stays_and_an_ended_one_does_not(void **state)
{
    (void)state;
    struct bench b = {.options.connections = 1};
    open_bench(&b);
    fresh_table(&b);
    begin(&b, LONG_MS);
    put(&b, 1);
    put(&b, 2);
    commit(&b);
    assert_int_equal(b.class, PG_CLASS_NONE);
    put(&b, 3); /* another transaction */
    pg_lease_end(b.lease);
    assert_int_equal(count_rows(&b), 2);
    begin(&b, LONG_MS);
    put(&b, 3);
    assert_int_equal(b.class, PG_CLASS_NONE);
    pg_lease_end(b.lease);
    assert_int_equal(count_rows(&b), 2); /* on the same connection, which was rolled back first */
    assert_int_equal(b.downs, 0);
    close_bench(&b);
}

static void others_wait_while_a_connection_is_leased(void **state)
{
    (void)state;
    struct bench b = {.options.connections = 1};
    open_bench(&b);
    begin(&b, LONG_MS);
    assert_int_equal(issue(&b, &ECHO, 1, 150), 0);
    run_until(&b, all_called);
    assert_int_equal(b.retries, 1);
    assert_int_equal(issue(&b, &ECHO, 2, LONG_MS), 0);
    pg_lease_end(b.lease);
    run_until(&b, all_called);
    assert_int_equal(b.last, 2);
    close_bench(&b);
}

static void a_failed_statement_fails_the_commit(void **state)
{
    (void)state;
    struct bench b = {.options.connections = 1};
    open_bench(&b);
    fresh_table(&b);
    begin(&b, LONG_MS);
    put(&b, 1);
    put(&b, 1);
    assert_string_equal(b.sqlstate, "23505");
    put(&b, 2);
    assert_string_equal(b.sqlstate, "25P02");
    commit(&b);
    assert_int_equal(b.class, PG_CLASS_CONFLICT);
    pg_lease_end(b.lease);
    assert_int_equal(count_rows(&b), 0);
    close_bench(&b);
}

static void statements_of_a_transaction_go_one_after_the_other(void **state)
{
    (void)state;
    struct bench b = {.options.connections = 1};
    open_bench(&b);
    fresh_table(&b);
    begin(&b, LONG_MS);
    assert_int_equal(lease_put(&b, 1), 0);
    assert_int_equal(lease_put(&b, 2), RC_REJECT);
    run_until(&b, all_called);
    pg_lease_end(b.lease);
    close_bench(&b);
}

static void a_lease_ended_under_way_is_answered_and_rolled_back(void **state)
{
    (void)state;
    struct bench b = {.options.connections = 1};
    open_bench(&b);
    fresh_table(&b);
    begin(&b, LONG_MS);
    assert_int_equal(lease_put(&b, 1), 0);
    pg_lease_end(b.lease);
    run_until(&b, all_called);
    assert_int_equal(b.class, PG_CLASS_NONE);
    assert_int_equal(count_rows(&b), 0);
    close_bench(&b);
}

static bool lease_is_broken(struct bench *b)
{
    struct fault f;
    return pg_lease_query(b->lease, &COUNT, NULL, on_answer, b, &f) == RC_RETRY;
}

static void a_lease_past_its_deadline_is_rolled_back(void **state)
{
    (void)state;
    struct bench b = {.options.connections = 1};
    open_bench(&b);
    fresh_table(&b);
    begin(&b, 300);
    put(&b, 1);
    int64_t started_ms = clock_mono_ms();
    assert_int_equal(issue(&b, &ECHO, 4, LONG_MS), 0); /* waits for the leased connection */
    run_until(&b, all_called);
    assert_in_range(clock_mono_ms() - started_ms, 100, 2000);
    assert_true(lease_is_broken(&b));
    pg_lease_end(b.lease);
    assert_int_equal(count_rows(&b), 0);
    close_bench(&b);
}

static void a_transaction_whose_server_dies_is_broken(void **state)
{
    (void)state;
    struct bench b = {.options.connections = 2};
    open_bench(&b);
    fresh_table(&b);
    begin(&b, LONG_MS);
    put(&b, 1);
    control("kill");
    assert_int_equal(lease_put(&b, 2), 0);
    run_until(&b, all_called);
    assert_int_equal(b.class, PG_CLASS_AWAY);
    assert_true(lease_is_broken(&b));
    pg_lease_end(b.lease);
    control("start");
    run_until(&b, is_up);
    assert_int_equal(count_rows(&b), 0);
    close_bench(&b);
}
/* The storm: chains of queries and transactions that go on whatever happens to the server. */

enum { CHAINS = 48, STORM_TIMEOUT_MS = 400 };

struct chain {
    struct storm *storm;
    struct pg_lease *lease;
    int64_t id;
    bool committing;
};

struct storm {
    struct bench *bench;
    struct chain chain[CHAINS];
    int64_t next_id;
    int committed, unknown, wanted, wanted_good;
    bool stopping;
};

static struct storm *storm_of; /* run_until() conditions know only the bench */

static void next_step(struct chain *c);

static void end_transaction(struct chain *c)
{
    pg_lease_end(c->lease);
    c->lease = NULL;
    c->committing = false;
    next_step(c);
}

static void on_storm_query(const struct pg_answer *a, void *arg)
{
    struct chain *c = arg;
    count_answer(c->storm->bench, a);
    next_step(c);
}

static void on_storm_commit(const struct pg_answer *a, void *arg)
{
    struct chain *c = arg;
    count_answer(c->storm->bench, a);
    c->storm->committed += a->rc == 0;
    c->storm->unknown += a->rc != 0;
    end_transaction(c);
}

static void on_storm_put(const struct pg_answer *a, void *arg);

static int storm_put(struct chain *c)
{
    struct fault f;
    struct pg_params p;
    pg_params_init(&p);
    pg_params_int8(&p, c->id++);
    return pg_lease_query(c->lease, &PUT, &p, on_storm_put, c, &f);
}

static void on_storm_put(const struct pg_answer *a, void *arg)
{
    struct chain *c = arg;
    struct fault f;
    count_answer(c->storm->bench, a);
    bool second = c->id % 2 == 0;
    int rc = a->rc;
    if (rc == 0)
        rc = second ? pg_lease_commit(c->lease, on_storm_commit, c, &f) : storm_put(c);
    if (rc == 0)
        c->storm->bench->accepted++;
    else
        end_transaction(c);
}

static void on_storm_lease(struct pg_lease *lease, const struct pg_answer *a, void *arg)
{
    struct chain *c = arg;
    count_answer(c->storm->bench, a);
    c->lease = lease;
    c->id = c->storm->next_id;
    c->storm->next_id += 2;
    if (a->rc == 0 && storm_put(c) == 0)
        c->storm->bench->accepted++;
    else
        end_transaction(c);
}

static void next_step(struct chain *c)
{
    struct fault f;
    struct storm *s = c->storm;
    if (s->stopping)
        return;
    bool transaction = (c - s->chain) % 3 == 0;
    int rc = transaction ? pg_pool_begin(s->bench->pool, STORM_TIMEOUT_MS, on_storm_lease, c, &f)
                         : pg_pool_query(s->bench->pool, &COUNT, NULL, STORM_TIMEOUT_MS,
                                         on_storm_query, c, &f);
    assert_int_equal(rc, 0); /* the queue has room for every chain */
    s->bench->accepted++;
}

static bool storm_went_on(struct bench *b)
{
    return b->calls >= storm_of->wanted && b->good >= storm_of->wanted_good;
}

static void storm_until(struct storm *s, int calls, int good)
{
    s->wanted = s->bench->calls + calls;
    s->wanted_good = s->bench->good + good;
    run_until(s->bench, storm_went_on);
}

static void a_storm_of_kills_and_freezes_loses_and_repeats_nothing(void **state)
{
    (void)state;
    struct bench b = {.options.connections = 6, .options.backoff_max_ms = 300};
    struct storm s = {.bench = &b};
    storm_of = &s;
    open_bench(&b);
    fresh_table(&b);
    for (int i = 0; i < CHAINS; i++) {
        s.chain[i].storm = &s;
        next_step(&s.chain[i]);
    }
    for (int round = 0; round < 2; round++) {
        storm_until(&s, 0, 1000);
        control("freeze");
        storm_until(&s, 2 * CHAINS, 0);
        control("thaw");
        storm_until(&s, 0, 1000);
        control("kill");
        storm_until(&s, 2 * CHAINS, 0);
        control("start");
        storm_until(&s, 0, 1000);
    }
    s.stopping = true;
    run_until(&b, all_called);
    int64_t rows = count_rows(&b);
    print_message("%d calls, %d good; %d commits known, %d unknown, %d rows\n", b.calls, b.good,
                  s.committed, s.unknown, (int)rows);
    assert_true(s.committed > 100);
    assert_int_equal(rows % 2, 0); /* no half transaction */
    assert_in_range(rows, 2 * s.committed, 2 * (s.committed + s.unknown));
    assert_true(b.downs >= 2);
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_committed_transaction_stays_and_an_ended_one_does_not),
        cmocka_unit_test(others_wait_while_a_connection_is_leased),
        cmocka_unit_test(a_failed_statement_fails_the_commit),
        cmocka_unit_test(statements_of_a_transaction_go_one_after_the_other),
        cmocka_unit_test(a_lease_ended_under_way_is_answered_and_rolled_back),
        cmocka_unit_test(a_lease_past_its_deadline_is_rolled_back),
        cmocka_unit_test(a_transaction_whose_server_dies_is_broken),
        cmocka_unit_test(a_storm_of_kills_and_freezes_loses_and_repeats_nothing),
    };
    return cmocka_run_group_tests_name("pg_pool_transactions", tests, NULL, NULL);
}
