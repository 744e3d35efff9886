-- PAYMENT_CONFIRMED of memberships (SPEC 3). Contract and outcomes: confirm_reservation.sql.
-- The year runs from the payment; 200 joining points are logged once per membership.
CREATE OR REPLACE FUNCTION ticket_apply_confirmed_membership(
    p_ord integer[], p_payment_id text[], p_order_id text[], p_saga_id text[], p_user_id text[],
    p_membership_id uuid[], p_amount bigint[], p_payment_method text[], p_time_ms bigint[],
    p_internal boolean DEFAULT false)
RETURNS TABLE (ord integer, outcome text, reason text)
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off AS $$
DECLARE
    c_joining_points CONSTANT bigint := 200;
BEGIN
    RETURN QUERY
    WITH seen AS MATERIALIZED (
        SELECT e.*, message_instant(e.time_ms) AS at,
               l.state AS ledger_state, l.amount AS ledger_amount, l.subject_id AS ledger_subject,
               m.id AS found, m.status, m.user_id AS owner, m.artist_id, m.saga_id AS own_saga,
               coalesce(m.price, a.membership_price) AS price,
               EXISTS (SELECT 1 FROM artist_memberships o
                        WHERE o.user_id = m.user_id AND o.artist_id = m.artist_id
                          AND o.status = 'active') AS already_member,
               EXISTS (SELECT 1 FROM membership_point_logs p
                        WHERE p.membership_id = m.id AND p.action_type = 'joining') AS has_points
          FROM (SELECT u.*, u.payment IS NOT NULL OR u.order_id IS NOT NULL AS refundable,
                       ticket_payment_ref(u.payment, u.saga_id, 'membership', u.membership_id) AS payment_id
                  FROM unnest(p_ord, p_payment_id, p_order_id, p_saga_id, p_user_id, p_membership_id,
                              p_amount, p_payment_method, p_time_ms)
                       AS u (ord, payment, order_id, saga_id, user_id, membership_id, amount, method,
                             time_ms)) e
          LEFT JOIN payment_ledger l ON l.payment_id = e.payment_id
          LEFT JOIN artist_memberships m ON m.id = e.membership_id
          LEFT JOIN artists a ON a.id = m.artist_id
    ), decided AS MATERIALIZED (
        SELECT v.*, message_saga(v.saga_id, v.own_saga, v.membership_id, v.payment_id) AS saga,
               a.action, a.outcome, a.reason
          FROM (SELECT x.*,
                       CASE
                       WHEN x.ledger_state = 'refunded' AND x.ledger_amount < x.amount THEN 'dead partial_refund'
                       WHEN p_internal AND (x.ledger_state <> 'applied' OR x.ledger_subject <> x.membership_id)
                           THEN 'refused payment_' || x.ledger_state
                       WHEN x.ledger_state IS NOT NULL THEN 'noop'
                       WHEN x.found IS NULL AND x.at < now() - interval '1 hour' THEN 'dead subject_missing'
                       WHEN x.found IS NULL THEN 'back membership_missing'
                       WHEN x.status <> 'pending' THEN 'back membership_' || x.status
                       WHEN x.amount <> x.price THEN 'back amount_mismatch'
                       WHEN x.already_member THEN 'back already_member'
                       ELSE 'activate'
                       END AS verdict
                  FROM seen x) v
         CROSS JOIN LATERAL ticket_verdict(v.verdict, v.refundable, p_internal) a
    ), ledger_new AS (
        INSERT INTO payment_ledger (payment_id, order_id, saga_id, payment_type, subject_id, user_id, amount,
                                    state, refund_decided_by, refund_reason, refund_requested_at, event_time)
        SELECT d.payment_id, d.order_id, d.saga, 'membership', d.membership_id, coalesce(d.user_id, d.owner),
               d.amount, d.outcome,
               CASE d.action WHEN 'back' THEN 'consumer' END,
               CASE d.action WHEN 'back' THEN d.reason END,
               CASE d.action WHEN 'back' THEN now() END,
               d.at
          FROM decided d
         WHERE d.action IN ('activate', 'back')
         ORDER BY d.payment_id COLLATE "C"
    ), ledger_filled AS (
        UPDATE payment_ledger l SET order_id = d.order_id, updated_at = now()
          FROM decided d
         WHERE d.action = 'noop' AND l.payment_id = d.payment_id
           AND l.order_id IS NULL AND d.order_id IS NOT NULL
    ), membership_done AS (
        UPDATE artist_memberships m
           SET status = 'active', payment_id = d.payment_id, saga_id = coalesce(m.saga_id, d.saga),
               joined_at = d.at, expires_at = d.at + interval '1 year',
               points = m.points + CASE WHEN d.has_points THEN 0 ELSE c_joining_points END,
               updated_at = now()
          FROM decided d
         WHERE d.action = 'activate' AND m.id = d.found
    ), points_logged AS (
        INSERT INTO membership_point_logs (membership_id, action_type, points, description, reference_id)
        SELECT d.found, 'joining', c_joining_points, 'joining points', d.payment_id
          FROM decided d WHERE d.action = 'activate' AND NOT d.has_points
    ), told AS (
        INSERT INTO outbox (topic, key, value)
        SELECT m.topic, m.key, m.value
          FROM (SELECT d.ord, 'membership-events' AS topic, message_key(d.found) AS key,
                       message_membership_activated(d.saga, d.found, d.owner, d.artist_id, d.at) AS value
                  FROM decided d WHERE d.action = 'activate'
                UNION ALL
                SELECT d.ord, 'payment-commands', message_command_key(d.order_id, d.payment_id),
                       message_refund_requested(d.saga, d.payment_id, d.order_id, coalesce(d.user_id, d.owner),
                                                d.amount, d.reason, d.at)
                  FROM decided d WHERE d.action = 'back') m
         ORDER BY m.ord
    )
    SELECT d.ord, d.outcome, d.reason FROM decided d;
END $$;

COMMENT ON FUNCTION ticket_apply_confirmed_membership IS
    'PAYMENT_CONFIRMED for memberships; outcome applied, noop, refund_requested, dead or refused.';
