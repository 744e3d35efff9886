/* Servers that are set up in other ways, or wrongly: passwords, databases, clusters, replicas. */
#include "redis_kit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* A server of the test's own, with other settings than the harness gives. */
struct server {
    pid_t pid;
    int port;
    char dir[64];
    char url[128];
};

static int any_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    (void)close(fd);
    return ntohs(address.sin_port);
}

/* A cluster node also listens 10,000 higher, which must be a port too. */
static int free_port(void)
{
    int port;
    while ((port = any_port()) > 55000)
        continue;
    return port;
}

static struct server start_server(const char *setting, const char *value, const char *login)
{
    struct server s = {.port = free_port(), .dir = "/tmp/urr-test-redis-XXXXXX"};
    assert_non_null(mkdtemp(s.dir));
    (void)snprintf(s.url, sizeof s.url, "redis://%s127.0.0.1:%d/0", login, s.port);
    char port[8];
    (void)snprintf(port, sizeof port, "%d", s.port);
    s.pid = fork();
    assert_true(s.pid >= 0);
    if (s.pid == 0) {
        (void)execlp("redis-server", "redis-server", "--port", port, "--bind", "127.0.0.1",
                     "--save", "", "--dir", s.dir, "--logfile", "/dev/null", setting, value,
                     (char *)NULL);
        _exit(127);
    }
    return s;
}

static void stop_server(struct server *s)
{
    (void)kill(s->pid, SIGKILL);
    (void)waitpid(s->pid, NULL, 0);
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf %s", s->dir);
    assert_int_equal(system(command), 0);
}

static void logs_in_with_the_right_password_only(void **state)
{
    (void)state;
    struct server s = start_server("--requirepass", "p@ss/word", ":p%40ss%2Fword@");
    struct bench right = {.options = {.url = s.url}};
    open_bench(&right);
    run_until(&right, is_up);
    close_bench(&right);
    char url[128];
    const char *const logins[] = {":sesame@", "nobody:sesame@", ""};
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(url, sizeof url, "redis://%s127.0.0.1:%d", logins[i], s.port);
        struct bench wrong = {.options = {.url = url}};
        open_bench(&wrong);
        run_until(&wrong, is_refused);
        assert_non_null(strstr(wrong.reason, "refuses"));
        assert_null(strstr(wrong.reason, "sesame"));
        close_bench(&wrong);
    }
    stop_server(&s);
}

static void uses_the_database_of_the_url(void **state)
{
    (void)state;
    struct server s = start_server("--databases", "4", "");
    s.url[strlen(s.url) - 1] = '3';
    struct bench b = {.options = {.url = s.url}};
    open_bench(&b);
    ask(&b, REDIS_ARGS(REDIS_STR("CLIENT"), REDIS_STR("INFO")));
    assert_non_null(strstr(b.text, " db=3 "));
    close_bench(&b);
    s.url[strlen(s.url) - 1] = '9';
    struct bench beyond = {.options = {.url = s.url}};
    open_bench(&beyond);
    run_until(&beyond, is_refused);
    assert_non_null(strstr(beyond.reason, "out of range"));
    close_bench(&beyond);
    stop_server(&s);
}

static void refuses_a_cluster_node_with_a_plain_message(void **state)
{
    (void)state;
    struct server s = start_server("--cluster-enabled", "yes", "");
    struct bench b = {.options = {.url = s.url}};
    open_bench(&b);
    run_until(&b, is_refused);
    assert_non_null(strstr(b.reason, "Redis Cluster"));
    close_bench(&b);
    stop_server(&s);
}

static void refuses_a_replica(void **state)
{
    (void)state;
    struct server s = start_server("--replicaof", "127.0.0.1 1", "");
    struct bench b = {.options = {.url = s.url}};
    open_bench(&b);
    run_until(&b, is_refused);
    assert_non_null(strstr(b.reason, "replica"));
    close_bench(&b);
    stop_server(&s);
}

static void complains_about_a_forgetful_server_until_it_is_mended(void **state)
{
    (void)state;
    struct server s = start_server("--appendonly", "no", "");
    struct bench b = {.options = {.url = s.url, .require_durable = true, .probe_ms = 100}};
    open_bench(&b);
    run_until(&b, is_unsafe);
    assert_non_null(strstr(b.reason, "appendonly yes"));
    ask(&b, REDIS_ARGS(REDIS_STR("CONFIG"), REDIS_STR("SET"), REDIS_STR("appendonly"),
                       REDIS_STR("yes")));
    run_until(&b, is_up);
    ask(&b, REDIS_ARGS(REDIS_STR("CONFIG"), REDIS_STR("SET"), REDIS_STR("maxmemory-policy"),
                       REDIS_STR("allkeys-lru")));
    run_until(&b, is_unsafe);
    close_bench(&b);
    stop_server(&s);
}

static void rediss_is_refused_at_open(void **state)
{
    (void)state;
    struct loop *l;
    struct redis *r = NULL;
    struct fault f;
    assert_int_equal(loop_new(&l, &f), 0);
    struct redis_options o = {.url = "rediss://127.0.0.1:6379"};
    assert_int_equal(redis_open(l, &o, &r, &f), RC_REJECT);
    assert_non_null(strstr(f.text, "TLS"));
    assert_null(r);
    loop_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logs_in_with_the_right_password_only),
        cmocka_unit_test(uses_the_database_of_the_url),
        cmocka_unit_test(refuses_a_cluster_node_with_a_plain_message),
        cmocka_unit_test(refuses_a_replica),
        cmocka_unit_test(complains_about_a_forgetful_server_until_it_is_mended),
        cmocka_unit_test(rediss_is_refused_at_open),
    };
    return cmocka_run_group_tests_name("redis_servers", tests, NULL, NULL);
}
