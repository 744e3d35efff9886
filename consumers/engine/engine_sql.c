/* engine_sql.c - names of statements to their embedded files. */
#include "consumers/engine/engine_sql.h"

#include "urr_engine_sql.h"

static const struct {
    const char *file, *name;
} FILES[ENGINE_SQL_COUNT] = {
    [ENGINE_SQL_CAS_OFFSETS] = {"cas_offsets.sql", "engine_cas_offsets"},
    [ENGINE_SQL_CLAIM_KEYS] = {"claim_keys.sql", "engine_claim_keys"},
    [ENGINE_SQL_RELEASE_KEYS] = {"release_keys.sql", "engine_release_keys"},
    [ENGINE_SQL_APPEND_DEAD] = {"append_dead.sql", "engine_append_dead"},
    [ENGINE_SQL_READ_OFFSETS] = {"read_offsets.sql", "engine_read_offsets"},
    [ENGINE_SQL_INSERT_OFFSETS] = {"insert_offsets.sql", "engine_insert_offsets"},
    [ENGINE_SQL_SKIP_GAP] = {"skip_gap.sql", "engine_skip_gap"},
    [ENGINE_SQL_RECORD_GAP] = {"record_gap.sql", "engine_record_gap"},
    [ENGINE_SQL_CONTROL] = {"control.sql", "engine_control"},
    [ENGINE_SQL_PAUSE] = {"pause.sql", "engine_pause"},
    [ENGINE_SQL_CAUGHT_UP] = {"caught_up.sql", "engine_caught_up"},
    [ENGINE_SQL_REPLAY_COUNT] = {"replay_count.sql", "engine_replay_count"},
};

const struct pg_stmt *engine_sql(enum engine_sql which)
{
    /* One consumer thread per process uses it; filled once. */
    static _Thread_local struct pg_stmt statements[ENGINE_SQL_COUNT];
    struct pg_stmt *s = &statements[which];
    if (!s->sql) {
        s->name = FILES[which].name;
        s->sql = embed_find(urr_engine_sql, FILES[which].file)->data;
    }
    return s;
}
