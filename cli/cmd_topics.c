/* cmd_topics.c - urrctl topics create: the topics of events/topics.h, made where they are missing.
 */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "events/topics.h"
#include "runtime/buf.h"
#include "runtime/config.h"
#include "runtime/fault.h"
#include "runtime/json.h"
#include "runtime/kafka.h"
#include "runtime/kafka_admin.h"

enum { MAX_TOPICS = 32, ANSWER_MS = 10000, TIMEOUT_MS = 30000, MAX_JSON = 1 << 16 };

static const struct config_item *const TABLES[] = {KAFKA_SETTINGS, TOPIC_SETTINGS, NULL};

struct request {
    struct topic_plan plan;
    const char *configs[2 * TOPIC_MAX_CONFIGS + 1];
};

static size_t plan_all(const struct config *config, struct request *requests,
                       struct kafka_topic_spec *specs)
{
    size_t count = 0;
    while (count < MAX_TOPICS && topic_plan(config, count, &requests[count].plan)) {
        struct request *r = &requests[count];
        size_t n = 0;
        for (size_t i = 0; i < r->plan.config_count; i++) {
            r->configs[n++] = r->plan.configs[i].name;
            r->configs[n++] = r->plan.configs[i].value;
        }
        r->configs[n] = NULL;
        specs[count++] = (struct kafka_topic_spec){.name = r->plan.name,
                                                   .partitions = r->plan.partitions,
                                                   .replication = r->plan.replication,
                                                   .configs = r->configs};
    }
    return count;
}

static void show(const struct cli *cli, const struct kafka_topic_spec *specs,
                 const struct kafka_topic_result *results, size_t count)
{
    static const char *const WORDS[] = {"created", "exists", "differs", "failed"};
    struct buf out;
    struct json_out j;
    buf_init(&out, MAX_JSON);
    json_begin(&j, &out);
    json_array(&j, NULL);
    for (size_t i = 0; i < count; i++) {
        const char *word = WORDS[results[i].outcome];
        if (!cli->json)
            (void)printf("%-8s %s (%d partitions)%s%s\n", word, specs[i].name,
                         (int)results[i].partitions, results[i].reason[0] ? ": " : "",
                         results[i].reason);
        json_object(&j, NULL);
        json_put_str(&j, "topic", specs[i].name);
        json_put_str(&j, "state", word);
        json_put_int(&j, "partitions", results[i].partitions);
        if (results[i].reason[0])
            json_put_str(&j, "reason", results[i].reason);
        json_end(&j);
    }
    json_end(&j);
    if (cli->json)
        (void)puts(buf_text(&out));
    buf_done(&out);
}

static int create(const struct cli *cli, const struct config *config)
{
    static struct request requests[MAX_TOPICS];
    static struct kafka_topic_spec specs[MAX_TOPICS];
    static struct kafka_topic_result results[MAX_TOPICS];
    struct kafka_client_options client;
    struct kafka_admin *admin = NULL;
    struct fault f = {0};
    size_t count = plan_all(config, requests, specs);
    kafka_client_from_config(config, "urrctl", &client);
    int rc = kafka_admin_open(&client, &admin, &f);
    if (rc == 0)
        rc = kafka_admin_ping(admin, ANSWER_MS, &f);
    if (rc == 0)
        rc = kafka_admin_create_topics(admin, specs, count, results, TIMEOUT_MS, &f);
    kafka_admin_close(admin);
    if (rc == 0 || (rc == RC_REJECT && !cli->json))
        show(cli, specs, results, count);
    return rc == 0 ? CLI_OK : cli_fail(cli, cli_code(rc), "%s: %s", client.brokers, f.text);
}

static int run(const struct cli *cli, int argc, char **argv)
{
    if (argc != 2 || strcmp(argv[1], "create") != 0)
        return cli_fail(cli, CLI_USAGE, "topics: expected 'urrctl topics create'");
    struct config *config = NULL;
    int code = cli_settings(cli, TABLES, &config);
    if (code != CLI_OK)
        return code;
    code = create(cli, config);
    config_free(config);
    return code;
}

const struct cli_command CMD_TOPICS = {
    "topics", "create the Kafka topics",
    "urrctl topics create\n\n"
    "Makes every topic and its dead-letter topic where it is missing; what exists is left as it\n"
    "is, and named when its partitions differ.\n\nExample:\n"
    "  KAFKA_BROKERS=127.0.0.1:9092 urrctl topics create\n",
    run, TABLES};
