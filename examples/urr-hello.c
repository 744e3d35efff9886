/* urr-hello.c - the smallest daemon: one route, one setting. */
#include "runtime/buf.h"
#include "runtime/config.h"
#include "runtime/daemon.h"
#include "runtime/http_server.h"
#include "runtime/json.h"

static void greet(struct http_request *req, void *arg)
{
    const struct worker *w = arg;
    struct buf body;
    struct json_out j;
    buf_init(&body, 4096);
    json_begin(&j, &body);
    json_object(&j, NULL);
    json_put_str(&j, "greeting", config_str(daemon_config(w->daemon), "GREETING"));
    json_put_str(&j, "name", http_param(req, "name"));
    json_end(&j);
    http_respond_json(req, 200, &body);
    buf_done(&body);
}

int main(int argc, char **argv)
{
    static const struct config_item own[] = {
        {"GREETING", CONFIG_STRING, "Hello", 1, 100, NULL, "What it says to whoever asks.", 0},
        {0}};
    static const struct http_route hello[] = {{HTTP_GET, "/hello/{name}", greet, NULL}, {0}};
    static const struct config_item *const settings[] = {own, NULL};
    static const struct http_route *const routes[] = {hello, NULL};
    static const struct daemon_spec spec = {.name = "urr-hello",
                                            .purpose = "Greets: an example of a daemon.",
                                            .settings = settings,
                                            .routes = routes,
                                            .default_port = "3098"};
    return daemon_main(&spec, argc, argv);
}
