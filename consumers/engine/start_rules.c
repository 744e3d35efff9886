/* start_rules.c - the decision table of a partition's start. Better to stand still than to skip or
 * to repeat money: every case that a person must judge refuses, and says what to do. */
#include "consumers/engine/start_rules.h"

#include <stdio.h>

#include "runtime/kafka.h"

static void refuse_commit_without_row(const struct start_view *v, struct start_decision *out)
{
    snprintf(
        out->text, sizeof out->text,
        "%s[%d]: Kafka has a commit of group %s at %lld, but the database has no offset row: is it "
        "the right database? Set the offset with urrctl to go on.",
        v->topic, v->partition, v->group, (long long)v->committed);
}

static void refuse_beyond_end(const struct start_view *v, struct start_decision *out)
{
    snprintf(out->text, sizeof out->text,
             "%s[%d]: group %s has applied up to %lld, but the log ends at %lld: the topic was "
             "made anew "
             "or is another cluster's. Set the offset with urrctl to go on.",
             v->topic, v->partition, v->group, (long long)v->next_offset, (long long)v->high);
}

void start_rules_recreated(const struct start_view *v, char *out, size_t size)
{
    snprintf(
        out, size,
        "%s[%d]: the record at %lld is not the one that group %s applied last: the topic was made "
        "anew or is another cluster's. Set the offset with urrctl to go on.",
        v->topic, v->partition, (long long)v->last_offset, v->group);
}

void start_rules_gap(const struct start_view *v, char *out, size_t size)
{
    snprintf(
        out, size,
        "%s[%d]: records %lld to %lld left the log before group %s read them. Find them elsewhere, "
        "then accept the gap in consumer_gaps with urrctl to go on behind it.",
        v->topic, v->partition, (long long)v->next_offset, (long long)v->low - 1, v->group);
}

void start_rules_decide(const struct start_view *v, struct start_decision *out)
{
    *out = (struct start_decision){.action = START_REFUSE};
    if (!v->has_row && v->committed != KAFKA_OFFSET_NONE) {
        refuse_commit_without_row(v, out);
    } else if (!v->has_row) {
        /* A partition that joins a known topic has been there from its first record on. */
        out->action = START_INSERT;
        out->offset = v->topic_known ? 0 : v->low;
    } else if (v->next_offset < v->low) {
        out->action = START_GAP;
        out->offset = v->low;
    } else if (v->next_offset > v->high) {
        refuse_beyond_end(v, out);
    } else if (v->has_last && v->last_offset >= v->low && v->last_offset < v->high) {
        out->action = START_VERIFY;
        out->offset = v->last_offset;
    } else {
        out->action = START_READ;
        out->offset = v->next_offset;
    }
}
