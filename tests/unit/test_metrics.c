#include "check.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "runtime/buf.h"
#include "runtime/clock.h"
#include "runtime/metrics.h"

static const double BOUNDS[] = {0.1, 1, 10};
static const struct metric_def DEFS[] = {
    {"urr_test_things_total", METRIC_COUNTER, "Things seen.", "kind,where", NULL, 0},
    {"urr_test_open", METRIC_GAUGE, "Things open.", NULL, NULL, 0},
    {"urr_test_wait_seconds", METRIC_HISTOGRAM, "Time\nwaited.", "queue", BOUNDS, 3},
    {"urr_test_threads_total", METRIC_COUNTER, "Adds of threads.", NULL, NULL, 0},
    {"urr_test_many_total", METRIC_COUNTER, "Too many values.", "id", NULL, 0},
    {"urr_test_sum_seconds", METRIC_HISTOGRAM, "Times of threads.", NULL, BOUNDS, 3},
};

static struct metric *series(int def, const char *a, const char *b)
{
    return metrics_series(&DEFS[def], (const char *[]){a, b});
}

static char *rendered(struct buf *b)
{
    buf_init(b, 1 << 20);
    metrics_render(b);
    assert_false(b->failed);
    return b->data;
}

static void the_same_labels_give_the_same_series(void **state)
{
    (void)state;
    assert_ptr_equal(series(0, "a", "b"), series(0, "a", "b"));
    assert_ptr_not_equal(series(0, "a", "b"), series(0, "b", "a"));
    assert_ptr_not_equal(series(0, "a\",where=\"b", ""), series(0, "a", "b"));
}

static void renders_prometheus_text(void **state)
{
    (void)state;
    metric_add(series(0, "say \"hi\"\\", "line\nbreak \xff"), 3);
    struct metric *wait = series(2, "q", NULL);
    metric_observe(wait, 0.1);
    metric_observe(wait, 5);
    metric_observe(wait, 50);
    struct buf b;
    const char *text = rendered(&b);
    assert_non_null(strstr(text, "# HELP urr_test_things_total Things seen.\n"
                                 "# TYPE urr_test_things_total counter\n"));
    assert_non_null(strstr(text, "urr_test_things_total{kind=\"say \\\"hi\\\"\\\\\",where=\"line"
                                 "\\nbreak \xef\xbf\xbd\"} 3\n"));
    assert_non_null(strstr(text, "# HELP urr_test_wait_seconds Time\\nwaited.\n"
                                 "# TYPE urr_test_wait_seconds histogram\n"
                                 "# UNIT urr_test_wait_seconds seconds\n"
                                 "urr_test_wait_seconds_bucket{queue=\"q\",le=\"0.1\"} 1\n"
                                 "urr_test_wait_seconds_bucket{queue=\"q\",le=\"1\"} 1\n"
                                 "urr_test_wait_seconds_bucket{queue=\"q\",le=\"10\"} 2\n"
                                 "urr_test_wait_seconds_bucket{queue=\"q\",le=\"+Inf\"} 3\n"
                                 "urr_test_wait_seconds_sum{queue=\"q\"} 55.1\n"
                                 "urr_test_wait_seconds_count{queue=\"q\"} 3\n"));
    assert_true(metric_value(wait) == 3);
    buf_done(&b);
}

static void families_come_sorted_by_name(void **state)
{
    (void)state;
    (void)series(2, "q", NULL);
    (void)series(1, NULL, NULL);
    struct buf b;
    const char *text = rendered(&b);
    assert_true(strstr(text, "TYPE urr_test_open ") < strstr(text, "TYPE urr_test_wait_seconds "));
    buf_done(&b);
}

static void a_gauge_takes_sets_and_deltas(void **state)
{
    (void)state;
    struct metric *open = series(1, NULL, NULL);
    metric_gauge_add(open, 5);
    metric_gauge_add(open, -2);
    assert_true(metric_value(open) == 3);
    metric_set(open, 0.75);
    assert_true(metric_value(open) == 0.75);
    metric_gauge_add(open, 1);
    assert_true(metric_value(open) == 1.75);
}

enum { THREADS = 20, ADDS = 20000 };

static void *add_many(void *arg)
{
    (void)arg;
    struct metric *count = series(3, NULL, NULL), *times = series(5, NULL, NULL);
    for (int i = 0; i < ADDS; i++) {
        metric_add(count, 1);
        metric_observe(times, 0.5);
    }
    return NULL;
}

/* More threads than shards, so that some share one. */
static void adds_of_many_threads_sum_exactly(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_many, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    assert_true(metric_value(series(3, NULL, NULL)) == THREADS * ADDS);
    assert_true(metric_value(series(5, NULL, NULL)) == THREADS * ADDS);
    struct buf b;
    assert_non_null(strstr(rendered(&b), "urr_test_sum_seconds_sum 200000\n"));
    buf_done(&b);
}

static void too_many_label_values_share_one_series(void **state)
{
    (void)state;
    char id[32];
    for (int i = 0; i < METRICS_MAX_SERIES + 500; i++) {
        (void)snprintf(id, sizeof id, "id-%d", i);
        metric_add(series(4, id, NULL), 1);
    }
    struct buf b;
    const char *text = rendered(&b);
    assert_non_null(strstr(text, "urr_test_many_total{id=\"id-999\"} 1\n"));
    assert_null(strstr(text, "id-1000"));
    assert_non_null(strstr(text, "urr_test_many_total{id=\"other\"} 500\n"));
    buf_done(&b);
}

static void set_on_render(void *arg)
{
    metric_set(series(1, NULL, NULL), *(double *)arg);
}

static void hooks_set_gauges_before_rendering(void **state)
{
    (void)state;
    static double value = 1234567890.125;
    metrics_on_render(set_on_render, &value);
    struct buf b;
    assert_non_null(strstr(rendered(&b), "urr_test_open 1234567890.125\n"));
    buf_done(&b);
}

static void describes_itself_for_the_docs(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 10000);
    metrics_describe(&b, DEFS, 1);
    assert_non_null(strstr(buf_text(&b), "| `urr_test_things_total` | counter |  | kind,where |"
                                         " Things seen. |\n"));
    buf_done(&b);
}

/* No assertion on time (the machine may be busy), but the figure is there to read. */
static void prints_the_price_of_an_update(void **state)
{
    (void)state;
    enum { N = 1000000 };
    struct metric *count = series(3, NULL, NULL), *times = series(5, NULL, NULL);
    int64_t t0 = clock_mono_us();
    for (int i = 0; i < N; i++)
        metric_add(count, 1);
    int64_t t1 = clock_mono_us();
    for (int i = 0; i < N; i++)
        metric_observe(times, 0.5);
    int64_t t2 = clock_mono_us();
    print_message("metric_add %.1f ns, metric_observe %.1f ns\n", (double)(t1 - t0) * 1000.0 / N,
                  (double)(t2 - t1) * 1000.0 / N);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_labels_give_the_same_series),
        cmocka_unit_test(renders_prometheus_text),
        cmocka_unit_test(families_come_sorted_by_name),
        cmocka_unit_test(a_gauge_takes_sets_and_deltas),
        cmocka_unit_test(adds_of_many_threads_sum_exactly),
        cmocka_unit_test(too_many_label_values_share_one_series),
        cmocka_unit_test(hooks_set_gauges_before_rendering),
        cmocka_unit_test(describes_itself_for_the_docs),
        cmocka_unit_test(prints_the_price_of_an_update),
    };
    return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
