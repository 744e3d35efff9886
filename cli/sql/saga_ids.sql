-- Everything that one name leads to: rows (kind, id), and what became of it (kind 'outcome'). A name may be that of a
-- saga, reservation (id or number), payment, order, transfer or membership; $1 holds one or more.
WITH named AS (SELECT unnest($1::text[]) AS name),
ledger AS (
    SELECT l.* FROM payment_ledger l JOIN named n ON l.payment_id = n.name
    UNION
    SELECT l.* FROM payment_ledger l JOIN named n ON l.order_id = n.name OR l.saga_id = n.name OR l.subject_id::text = n.name
),
transfers AS (
    SELECT t.*
      FROM ticket_transfers t
     WHERE t.id::text IN (SELECT name FROM named) OR t.saga_id IN (SELECT name FROM named)
        OR t.payment_id IN (SELECT name FROM named) OR t.id IN (SELECT subject_id FROM ledger)
        OR t.reservation_id::text IN (SELECT name FROM named)
),
found AS (
    SELECT r.*
      FROM reservations r
     WHERE r.id::text IN (SELECT name FROM named) OR r.reservation_number IN (SELECT name FROM named)
        OR r.saga_id IN (SELECT name FROM named) OR r.payment_id IN (SELECT name FROM named)
        OR r.id IN (SELECT subject_id FROM ledger) OR r.id IN (SELECT reservation_id FROM transfers)
),
all_transfers AS (
    SELECT * FROM transfers
    UNION
    SELECT t.* FROM ticket_transfers t JOIN found r ON t.reservation_id = r.id
),
memberships AS (
    SELECT m.*
      FROM artist_memberships m
     WHERE m.id::text IN (SELECT name FROM named) OR m.saga_id IN (SELECT name FROM named)
        OR m.payment_id IN (SELECT name FROM named) OR m.id IN (SELECT subject_id FROM ledger)
),
all_ledger AS (
    SELECT * FROM ledger
    UNION
    SELECT l.* FROM payment_ledger l
     WHERE l.subject_id IN (SELECT id FROM found UNION SELECT id FROM all_transfers UNION SELECT id FROM memberships)
        OR l.payment_id IN (SELECT payment_id FROM found UNION SELECT payment_id FROM all_transfers
                            UNION SELECT payment_id FROM memberships)
)
SELECT kind, id::text FROM (
    SELECT 'reservation' AS kind, id::text FROM found
    UNION SELECT 'transfer', id::text FROM all_transfers
    UNION SELECT 'membership', id::text FROM memberships
    UNION SELECT 'payment', payment_id FROM all_ledger
    UNION SELECT 'payment', payment_id FROM found WHERE payment_id IS NOT NULL
    UNION SELECT 'order', order_id FROM all_ledger WHERE order_id IS NOT NULL
    UNION SELECT 'saga', saga_id FROM found WHERE saga_id IS NOT NULL
    UNION SELECT 'saga', saga_id FROM memberships WHERE saga_id IS NOT NULL
    UNION SELECT 'outcome', 'reservation ' || reservation_number || ': ' || status
                            || coalesce(' (' || cancel_reason || ')', '') || ', payment ' || payment_status
                            || CASE WHEN transferred_at IS NOT NULL THEN ', transferred' ELSE '' END FROM found
    UNION SELECT 'outcome', 'membership: ' || status FROM memberships
    UNION SELECT 'outcome', 'payment ' || payment_id || ': ' || state FROM all_ledger
           WHERE subject_id IS NULL OR (subject_id NOT IN (SELECT id FROM found) AND subject_id NOT IN (SELECT id FROM memberships))
    UNION SELECT 'since', (floor(extract(epoch FROM min(at)) * 1000)::bigint)::text
            FROM (SELECT created_at AS at FROM found UNION ALL SELECT created_at FROM memberships
                  UNION ALL SELECT least(event_time, created_at) FROM all_ledger) times
          HAVING min(at) IS NOT NULL
) rows
ORDER BY CASE kind WHEN 'outcome' THEN 0 ELSE 1 END, kind, id
