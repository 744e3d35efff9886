/* control.c - pause and resume, by an operator or by a brake, through consumer_control. */
#include <stdio.h>
#include <string.h>

#include "consumers/engine/engine_internal.h"
#include "runtime/fault.h"
#include "runtime/log.h"

int control_read(struct engine *e, struct fault *f)
{
    struct pg_result *r = NULL;
    struct pg_params p;
    pg_params_init(&p);
    pg_params_text(&p, e->spec->group);
    int rc = pg_exec(e->pg, engine_sql(ENGINE_SQL_CONTROL), &p, &r, f);
    if (rc)
        return rc;
    e->db_now_ms = pg_result_time_ms(r, 0, 0);
    bool paused = pg_result_bool(r, 0, 1);
    const char *reason = pg_result_text(r, 0, 2), *detail = pg_result_text(r, 0, 3);
    snprintf(e->pause_text, sizeof e->pause_text, "paused: %s%s%.200s", reason ? reason : "",
             detail && *detail ? ": " : "", detail ? detail : "");
    if (paused != e->paused) {
        LOG_INFO(paused ? "consumer paused" : "consumer resumed", LOG_STR("group", e->spec->group),
                 LOG_STR("reason", paused ? reason : NULL),
                 LOG_STR("detail", paused ? detail : NULL));
        e->paused = paused;
        engine_reset(e);
    }
    pg_result_free(r);
    return 0;
}

int control_pause(struct engine *e, const struct engine_brake *brake, struct fault *f)
{
    char by[128];
    snprintf(by, sizeof by, "%s brake", e->spec->name);
    struct pg_params p;
    pg_params_init(&p);
    pg_params_text(&p, e->spec->group);
    pg_params_text(&p, brake->reason);
    pg_params_text(&p, brake->detail);
    pg_params_text(&p, by);
    int rc = pg_exec(e->pg, engine_sql(ENGINE_SQL_PAUSE), &p, NULL, f);
    if (rc == 0)
        LOG_ERROR("the brake stops all instances of the group", LOG_STR("group", e->spec->group),
                  LOG_STR("reason", brake->reason), LOG_STR("detail", brake->detail));
    return rc ? rc : control_read(e, f);
}
