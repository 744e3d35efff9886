/* engine_sql.h - the engine's statements, from the folder sql. */
#ifndef ENGINE_SQL_H
#define ENGINE_SQL_H
#include "runtime/pg.h"

enum engine_sql {
    ENGINE_SQL_CAS_OFFSETS,
    ENGINE_SQL_CLAIM_KEYS,
    ENGINE_SQL_RELEASE_KEYS,
    ENGINE_SQL_APPEND_DEAD,
    ENGINE_SQL_READ_OFFSETS,
    ENGINE_SQL_INSERT_OFFSETS,
    ENGINE_SQL_SKIP_GAP,
    ENGINE_SQL_RECORD_GAP,
    ENGINE_SQL_CONTROL,
    ENGINE_SQL_PAUSE,
    ENGINE_SQL_CAUGHT_UP,
    ENGINE_SQL_REPLAY_COUNT,
    ENGINE_SQL_COUNT
};

const struct pg_stmt *engine_sql(enum engine_sql which);

#endif
