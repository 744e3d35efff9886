#include "check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "runtime/config.h"
#include "runtime/daemon.h"
#include "runtime/fault.h"
#include "runtime/http_server.h"
#include "runtime/loop.h"

/* Each test runs a whole daemon in this process; `probe` is the thread beside its loops that looks
 * at it from outside, over a socket. */
enum { LOOK_MS = 10000, ANSWER_BYTES = 65536 };

static _Atomic uint16_t port; /* the kernel's choice, known when the first worker listens */
static int starts, stops, worker_starts, worker_stops;
static int refused_worker; /* the index that fails to start, or -1 */
static int (*probe)(struct daemon *d, void *arg);
static struct readiness *first, *second;
static struct http_request *held; /* guarded by the gate; answered on held_loop only */
static struct loop *held_loop;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came = PTHREAD_COND_INITIALIZER;
static bool request_came;
static char answer[ANSWER_BYTES];
static int status;

static int new_socket(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval patience = {.tv_sec = LOOK_MS / 1000};
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return fd;
}

static struct sockaddr_in at(uint16_t p)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(p)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return a;
}

static int bind_any(uint16_t *out_port)
{
    int fd = new_socket();
    struct sockaddr_in a = at(0);
    socklen_t len = sizeof a;
    if (bind(fd, (struct sockaddr *)&a, len) != 0 || getsockname(fd, (struct sockaddr *)&a, &len))
        abort();
    *out_port = ntohs(a.sin_port);
    return fd;
}

/* The probe may be up before the listener: port 0 then, which refuses. */
static int dial(void)
{
    int64_t until = clock_mono_ms() + LOOK_MS;
    while (clock_mono_ms() < until) {
        struct sockaddr_in a = at(port);
        int fd = new_socket();
        if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
            return fd;
        (void)close(fd);
    }
    return -1;
}

static void ask(int fd, const char *path)
{
    char text[200];
    int n = snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
                     path);
    if (write(fd, text, (size_t)n) != n)
        (void)fprintf(stderr, "short write\n");
}

/* The status, with the whole answer in `answer`; 0 when there is none. */
static int hear(int fd)
{
    size_t len = 0;
    ssize_t n;
    while (len < sizeof answer - 1 && (n = read(fd, answer + len, sizeof answer - 1 - len)) > 0)
        len += (size_t)n;
    answer[len] = '\0';
    (void)close(fd);
    return len > 12 ? atoi(answer + 9) : 0;
}

static int get(const char *path)
{
    int fd = dial();
    if (fd < 0)
        return 0;
    ask(fd, path);
    return hear(fd);
}

static void hold(struct http_request *req, void *arg)
{
    (void)arg;
    (void)pthread_mutex_lock(&gate);
    held = req;
    held_loop = http_loop(req);
    request_came = true;
    (void)pthread_cond_broadcast(&came);
    (void)pthread_mutex_unlock(&gate);
}

/* On the loop that is its argument. */
static void answer_held(void *loop)
{
    (void)pthread_mutex_lock(&gate);
    struct http_request *req = held_loop == loop ? held : NULL;
    if (req)
        held = NULL;
    (void)pthread_mutex_unlock(&gate);
    if (req)
        http_respond(req, 200, "text/plain", "late", 4);
}

static void wait_for_request(void)
{
    (void)pthread_mutex_lock(&gate);
    while (!request_came)
        (void)pthread_cond_wait(&came, &gate);
    (void)pthread_mutex_unlock(&gate);
}

static int start(struct daemon *d, struct fault *f)
{
    starts++;
    return probe ? daemon_thread(d, "probe", probe, NULL, f) : 0;
}

static void stop(struct daemon *d)
{
    (void)d;
    stops++;
}

static int worker_start(struct worker *w, struct fault *f)
{
    (void)pthread_mutex_lock(&gate);
    worker_starts++;
    (void)pthread_mutex_unlock(&gate);
    port = http_server_port(w->http);
    if (w->index == refused_worker)
        return fault_set(f, RC_FATAL, "no");
    return 0;
}

static void worker_stop(struct worker *w)
{
    (void)pthread_mutex_lock(&gate);
    worker_stops++;
    (void)pthread_mutex_unlock(&gate);
    answer_held(w->loop);
}

static const struct http_route ROUTES[] = {{HTTP_GET, "/hold", hold, NULL}, {0}};
static const struct http_route *const ROUTE_TABLES[] = {ROUTES, NULL};
static const struct config_item SETTINGS[] = {
    {"PROBE_SECRET", CONFIG_SECRET, NULL, 0, 0, NULL, "Not for eyes.", CONFIG_OPTIONAL}, {0}};
static const struct config_item *const SETTING_TABLES[] = {SETTINGS, NULL};

static struct daemon_spec spec(void)
{
    return (struct daemon_spec){.name = "urr-probe",
                                .purpose = "Is looked at.",
                                .settings = SETTING_TABLES,
                                .routes = ROUTE_TABLES,
                                .default_port = "0",
                                .start = start,
                                .worker_start = worker_start,
                                .worker_stop = worker_stop,
                                .stop = stop};
}

static int run_with(const struct daemon_spec *s, const char *option)
{
    char name[] = "urr-probe", text[64];
    char *argv[] = {name, text, NULL};
    (void)snprintf(text, sizeof text, "%s", option ? option : "");
    return daemon_main(s, option ? 2 : 1, argv);
}

static int run(int (*fn)(struct daemon *, void *))
{
    struct daemon_spec s = spec();
    probe = fn;
    return run_with(&s, NULL);
}

static int fresh(void **state)
{
    (void)state;
    (void)setenv("HTTP_PORT", "0", 1);
    (void)setenv("WORKERS", "2", 1);
    (void)setenv("LOG_LEVEL", "error", 1);
    (void)setenv("DRAIN_SECONDS", "10", 1);
    port = 0;
    starts = stops = worker_starts = worker_stops = status = 0;
    refused_worker = -1;
    request_came = false;
    first = second = NULL;
    held = NULL;
    held_loop = NULL;
    probe = NULL;
    return 0;
}

static int look_at_health(struct daemon *d, void *arg)
{
    (void)arg;
    status = get("/healthz") == 200 && get("/health") == 200 && get("/readyz") == 200 ? 200 : 0;
    if (get("/metrics") != 200 || !strstr(answer, "urr_build_info{daemon=\"urr-probe\"") ||
        !strstr(answer, "process_resident_memory_bytes "))
        status = 0;
    daemon_stop(d, 0);
    return 0;
}

static void serves_health_readiness_and_metrics(void **state)
{
    (void)state;
    assert_int_equal(run(look_at_health), 0);
    assert_int_equal(status, 200);
    assert_int_equal(starts, 1);
    assert_int_equal(stops, 1);
    assert_int_equal(worker_starts, 2);
    assert_int_equal(worker_stops, 2);
}

static int turn_conditions(struct daemon *d, void *arg)
{
    (void)arg;
    first = daemon_readiness(d, "database");
    second = daemon_readiness(d, "kafka");
    bool good = get("/readyz") == 503;
    readiness_set(first, true, "");
    readiness_set(second, false, "no \"broker\" answers");
    good = good && get("/readyz") == 503 &&
           strstr(answer, "{\"name\":\"database\",\"ready\":true}") &&
           strstr(answer, "\"reason\":\"no \\\"broker\\\" answers\"") && get("/healthz") == 200;
    readiness_set(second, true, "");
    good = good && get("/readyz") == 200 && get("/metrics") == 200 &&
           strstr(answer, "urr_ready{condition=\"kafka\"} 1");
    good = good && daemon_readiness(d, "kafka") == second;
    status = good ? 200 : 0;
    daemon_stop(d, 0);
    return 0;
}

static void is_ready_when_every_condition_holds(void **state)
{
    (void)state;
    assert_int_equal(run(turn_conditions), 0);
    assert_int_equal(status, 200);
}

static int term_during_a_request(struct daemon *d, void *arg)
{
    (void)arg;
    int fd = dial();
    ask(fd, "/hold");
    wait_for_request();
    (void)kill(getpid(), SIGTERM);
    while (!daemon_wait(d, LOOK_MS))
        continue;
    (void)loop_post(held_loop, answer_held, held_loop);
    status = hear(fd);
    return 0;
}

static void finishes_a_running_request_after_sigterm(void **state)
{
    (void)state;
    assert_int_equal(run(term_during_a_request), 0);
    assert_int_equal(status, 200);
    assert_non_null(strstr(answer, "late"));
    assert_int_equal(worker_stops, 2);
}

static int term_and_wait(struct daemon *d, void *arg)
{
    (void)d;
    (void)arg;
    int fd = dial();
    ask(fd, "/hold");
    wait_for_request();
    (void)kill(getpid(), SIGTERM);
    (void)hear(fd);
    return 0;
}

/* Nobody answers before the deadline; worker_stop does so afterwards, and the request must not
 * leak. */
static void cuts_a_request_that_outlives_the_drain(void **state)
{
    (void)state;
    (void)setenv("DRAIN_SECONDS", "0", 1);
    int64_t before = clock_mono_ms();
    assert_int_equal(run(term_and_wait), 0);
    assert_true(clock_mono_ms() - before < LOOK_MS / 2);
    assert_null(held);
}

static int give_up(struct daemon *d, void *arg)
{
    (void)d;
    (void)arg;
    return RC_FATAL;
}

static void a_thread_that_gives_up_stops_it_with_1(void **state)
{
    (void)state;
    assert_int_equal(run(give_up), 1);
    assert_int_equal(stops, 1);
    assert_int_equal(worker_starts, worker_stops);
}

static int end_early(struct daemon *d, void *arg)
{
    (void)arg;
    (void)d;
    (void)kill(getpid(), SIGINT);
    return RC_RETRY;
}

static void ends_with_0_on_sigint_though_its_threads_ended_before(void **state)
{
    (void)state;
    assert_int_equal(run(end_early), 0);
}

static int refuse(struct daemon *d, struct fault *f)
{
    (void)d;
    starts++;
    return fault_set(f, RC_FATAL, "the test wants it");
}

static void a_failed_start_is_undone_without_serving(void **state)
{
    (void)state;
    struct daemon_spec s = spec();
    s.start = refuse;
    assert_int_equal(run_with(&s, NULL), 1);
    assert_int_equal(starts, 1);
    assert_int_equal(stops, 1);
    assert_int_equal(worker_starts, 0);
}

static int wait_for_the_end(struct daemon *d, void *arg)
{
    (void)arg;
    while (!daemon_wait(d, LOOK_MS))
        continue;
    status = 200;
    return 0;
}

static void a_worker_that_fails_to_start_ends_the_others(void **state)
{
    (void)state;
    refused_worker = 1;
    assert_int_equal(run(wait_for_the_end), 1);
    assert_int_equal(status, 200);
    assert_int_equal(worker_starts, 2);
    assert_int_equal(worker_stops, 2);
    assert_int_equal(stops, 1);
}

static pthread_mutex_t blocker = PTHREAD_MUTEX_INITIALIZER;

static int look_beside_a_blocked_thread(struct daemon *d, void *arg)
{
    (void)arg;
    (void)get("/healthz"); /* the workers are up */
    (void)pthread_mutex_lock(&blocker);
    status = get("/healthz");
    (void)pthread_mutex_unlock(&blocker);
    daemon_stop(d, 7);
    daemon_stop(d, 8);
    return 0;
}

static int wait_at_the_gate(struct daemon *d, void *arg)
{
    (void)arg;
    while (!daemon_stopping(d)) {
        (void)pthread_mutex_lock(&blocker);
        (void)pthread_mutex_unlock(&blocker);
        (void)daemon_wait(d, 1);
    }
    return 0;
}

static int start_two(struct daemon *d, struct fault *f)
{
    int rc = daemon_thread(d, "blocked", wait_at_the_gate, NULL, f);
    return rc == 0 ? daemon_thread(d, "probe", look_beside_a_blocked_thread, NULL, f) : rc;
}

static void answers_while_a_thread_blocks_and_keeps_the_first_exit_code(void **state)
{
    (void)state;
    struct daemon_spec s = spec();
    s.start = start_two;
    assert_int_equal(run_with(&s, NULL), 7);
    assert_int_equal(status, 200);
}

static void refuses_a_port_that_another_process_serves(void **state)
{
    (void)state;
    char text[16];
    uint16_t taken;
    int on = 1, fd = bind_any(&taken);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    assert_int_equal(listen(fd, 1), 0);
    (void)snprintf(text, sizeof text, "%u", taken);
    (void)setenv("HTTP_PORT", text, 1);
    assert_int_equal(run(wait_for_the_end), 1);
    (void)close(fd);
}

static void says_2_to_a_bad_setting_and_a_bad_option(void **state)
{
    (void)state;
    struct daemon_spec s = spec();
    assert_int_equal(run_with(&s, "--nonsense"), 2);
    assert_int_equal(run_with(&s, "argument"), 2);
    assert_int_equal(run_with(&s, "--describe=nonsense"), 2);
    (void)setenv("DRAIN_SECONDS", "soon", 1);
    assert_int_equal(run_with(&s, NULL), 2);
    assert_int_equal(run_with(&s, "--check-config"), 2);
    assert_int_equal(starts, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(serves_health_readiness_and_metrics, fresh),
        cmocka_unit_test_setup(is_ready_when_every_condition_holds, fresh),
        cmocka_unit_test_setup(finishes_a_running_request_after_sigterm, fresh),
        cmocka_unit_test_setup(cuts_a_request_that_outlives_the_drain, fresh),
        cmocka_unit_test_setup(a_thread_that_gives_up_stops_it_with_1, fresh),
        cmocka_unit_test_setup(ends_with_0_on_sigint_though_its_threads_ended_before, fresh),
        cmocka_unit_test_setup(a_failed_start_is_undone_without_serving, fresh),
        cmocka_unit_test_setup(a_worker_that_fails_to_start_ends_the_others, fresh),
        cmocka_unit_test_setup(answers_while_a_thread_blocks_and_keeps_the_first_exit_code, fresh),
        cmocka_unit_test_setup(refuses_a_port_that_another_process_serves, fresh),
        cmocka_unit_test_setup(says_2_to_a_bad_setting_and_a_bad_option, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
