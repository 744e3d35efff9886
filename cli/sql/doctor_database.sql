-- Troubles of any database: (level, check, what, page), texts. $1: which database.
WITH troubles (level, "check", what, page) AS (
    SELECT CASE WHEN age > 60 THEN 'bad' ELSE 'warn' END, 'outbox', 'the oldest of ' || n || ' outbox rows is ' || age || ' s old', 'relay-stands-still'
      FROM (SELECT count(*) AS n, extract(epoch FROM now() - min(created_at))::bigint AS age FROM outbox) o
     WHERE age > 10
    UNION ALL
    SELECT 'bad', 'outbox', count(*) || ' messages wait in outbox_failed; the first: ' || min(reason), 'outbox-failed'
      FROM outbox_failed HAVING count(*) > 0
    UNION ALL
    SELECT CASE WHEN age > 300 THEN 'bad' ELSE 'warn' END, 'transactions',
           'a transaction of ' || coalesce(nullif(application_name, ''), usename::text) || ' (pid ' || pid || ') is open for ' || age || ' s: ' || state, 'long-transactions'
      FROM (SELECT pid, application_name, usename, state, extract(epoch FROM now() - xact_start)::bigint AS age
              FROM pg_stat_activity
             WHERE datname = current_database() AND xact_start IS NOT NULL AND pid <> pg_backend_pid()
               AND backend_type = 'client backend') t
     WHERE age > 30
    UNION ALL
    SELECT 'bad', 'durability', name || ' is ' || setting || ': a crash may lose money', 'unsafe-postgresql'
      FROM pg_settings WHERE name IN ('fsync', 'full_page_writes') AND setting <> 'on'
        OR name = 'synchronous_commit' AND setting = 'off'
    UNION ALL
    SELECT CASE WHEN used > 0.95 THEN 'bad' ELSE 'warn' END, 'connections', n || ' of ' || most || ' connections are used', 'connections'
      FROM (SELECT count(*) AS n, current_setting('max_connections')::int AS most,
                   count(*)::float8 / current_setting('max_connections')::int AS used
              FROM pg_stat_activity WHERE backend_type = 'client backend') c
     WHERE used > 0.8
    UNION ALL
    SELECT 'warn', 'vacuum', relname || ' has ' || n_dead_tup || ' dead rows', 'long-transactions'
      FROM pg_stat_user_tables WHERE n_dead_tup > 1000000 AND n_dead_tup > n_live_tup
)
SELECT level, "check", $1 || '_db: ' || what, page FROM troubles
