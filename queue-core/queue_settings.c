/* queue_settings.c - urr-queue's settings, and the room's rules made of them. */
#include "queue-core/queue_settings.h"

#include "queue-core/room.h"

#define DAY_S 86400

const struct config_item QUEUE_SERVICE_SETTINGS[] = {
    {"REDIS_URL", CONFIG_URL, "redis://127.0.0.1:6379/0", 0, 0, "redis",
     "The Redis that keeps the waiting rooms: one plain server, appendonly yes, noeviction.", 0},
    {"QUEUE_ENTRY_TOKEN_SECRET", CONFIG_SECRET, NULL, 0, 0, NULL,
     "Secret of the entry tokens (HS256), shared with the services that verify them.", 0},
    {"QUEUE_ENTRY_TOKEN_SECRET_PREVIOUS", CONFIG_SECRET, NULL, 0, 0, NULL,
     "The secret before the last change: its tokens and places stay good until they expire.",
     CONFIG_OPTIONAL},
    {"VWR_TOKEN_SECRET", CONFIG_SECRET, NULL, 0, 0, NULL,
     "Secret of the Tier 1 tokens (HS256), shared with the gate.", 0},
    {"VWR_TOKEN_SECRET_PREVIOUS", CONFIG_SECRET, NULL, 0, 0, NULL,
     "The secret before the last change: its tokens stay good until they expire.", CONFIG_OPTIONAL},
    {"INTERNAL_API_TOKEN", CONFIG_SECRET, NULL, 0, 0, NULL,
     "Token of calls between services (/internal).", CONFIG_OPTIONAL},
    {"TICKET_SERVICE_URL", CONFIG_URL, NULL, 0, 0, "http",
     "Who is asked for events that are not registered here: http://host:port. Absent: nobody.",
     CONFIG_OPTIONAL},
    {"COOKIE_SECURE", CONFIG_BOOL, "false", 0, 0, NULL,
     "Cookies are sent over https only; turn on wherever the site has a certificate.", 0},
    {"QUEUE_THRESHOLD", CONFIG_INT, "1000", 0, 10000000, NULL,
     "How many may be inside an event at once, unless the event says otherwise.", 0},
    {"QUEUE_ACTIVE_TTL_SECONDS", CONFIG_INT, "600", 1, DAY_S, NULL, "A slot's life; s.", 0},
    {"QUEUE_ACTIVE_IDLE_SECONDS", CONFIG_INT, "90", 0, DAY_S, NULL,
     "A slot not heard from for so long ends; s, 0 = never.", 0},
    {"QUEUE_CLAIM_TTL_SECONDS", CONFIG_INT, "60", 1, DAY_S, NULL,
     "Silent for so long at its turn, or after it: parked, with the same place; s.", 0},
    {"QUEUE_SEEN_TTL_SECONDS", CONFIG_INT, "600", 1, DAY_S, NULL,
     "Waiting and not heard from for so long: out of the counts, not of the right; s.", 0},
    {"QUEUE_ADMISSION_INTERVAL_MS", CONFIG_INT, "1000", 100, 3600000, NULL,
     "Between two admissions of an event; ms.", 0},
    {"QUEUE_ADMISSION_BATCH_SIZE", CONFIG_INT, "100", 1, 100000, NULL,
     "How many an admission lets in at most.", 0},
    {"QUEUE_STALE_CLEANUP_INTERVAL_MS", CONFIG_INT, "30000", 100, 3600000, NULL,
     "Between two clean-ups of an event; ms.", 0},
    {"QUEUE_RESTORE_SECONDS", CONFIG_INT, "30", 1, 3600, NULL,
     "After Redis lost something nobody is admitted for so long, while places come back; s.", 0},
    {"QUEUE_MAX_LENGTH", CONFIG_INT, "1000000", 0, 100000000, NULL,
     "Waiting members past which newcomers are refused (QUEUE_FULL).", 0},
    {"QUEUE_MAX_WAIT_SECONDS", CONFIG_INT, "0", 0, 864000, NULL,
     "An expected wait past which newcomers are refused (WAIT_TOO_LONG); s, 0 = off.", 0},
    {"VWR_BATCH_SIZE", CONFIG_INT, "500", 0, 1000000, NULL,
     "Tier 1: how many numbers are served per interval.", 0},
    {"VWR_INTERVAL_MS", CONFIG_INT, "10000", 100, 3600000, NULL, "Tier 1: that interval; ms.", 0},
    {"QUEUE_LOG_SNAPSHOT_EVERY", CONFIG_INT, "10000", 100, 10000000, NULL,
     "Entries of an event's admission log between two snapshots of it.", 0},
    {"QUEUE_REDIS_TIMEOUT_MS", CONFIG_INT, "2000", 50, 60000, NULL,
     "How long a request waits for Redis before it is told to try again; ms.", 0},
    {"QUEUE_STREAMS_PER_USER", CONFIG_INT, "4", 1, 1000, NULL,
     "Open streams of one user per event and worker; the oldest is closed for a further one.", 0},
    {NULL, 0, NULL, 0, 0, NULL, NULL, 0},
};

struct room_rules queue_settings_rules(const struct config *c)
{
    struct room_rules r = ROOM_RULES;
    r.threshold = config_int(c, "QUEUE_THRESHOLD");
    r.active_ttl_ms = config_int(c, "QUEUE_ACTIVE_TTL_SECONDS") * 1000;
    r.idle_ms = config_int(c, "QUEUE_ACTIVE_IDLE_SECONDS") * 1000;
    r.claim_ttl_ms = config_int(c, "QUEUE_CLAIM_TTL_SECONDS") * 1000;
    r.seen_ttl_ms = config_int(c, "QUEUE_SEEN_TTL_SECONDS") * 1000;
    r.batch = config_int(c, "QUEUE_ADMISSION_BATCH_SIZE");
    r.interval_ms = config_int(c, "QUEUE_ADMISSION_INTERVAL_MS");
    r.restore_ms = config_int(c, "QUEUE_RESTORE_SECONDS") * 1000;
    r.max_length = config_int(c, "QUEUE_MAX_LENGTH");
    r.max_wait_ms = config_int(c, "QUEUE_MAX_WAIT_SECONDS") * 1000;
    r.clean_ms = config_int(c, "QUEUE_STALE_CLEANUP_INTERVAL_MS");
    r.vwr_batch = config_int(c, "VWR_BATCH_SIZE");
    r.vwr_interval_ms = config_int(c, "VWR_INTERVAL_MS");
    r.log_every = config_int(c, "QUEUE_LOG_SNAPSHOT_EVERY");
    r.call_timeout_ms = config_int(c, "QUEUE_REDIS_TIMEOUT_MS");
    return r;
}
