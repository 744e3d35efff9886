-- The leader's session. A stopped leader is ended after 0.7 s (a working one talks every 100 ms), and with
-- it goes the advisory lock. A delete lost in a crash of the server only repeats a delivery: it need not wait
-- for the disk. The table is often empty when a plan is made and full when it is used: the index is always right.
SET idle_session_timeout = 700;
SET synchronous_commit = off;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET plan_cache_mode = force_generic_plan;
