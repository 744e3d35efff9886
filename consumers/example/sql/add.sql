-- One row per user; the engine never puts two events of one user into one call.
INSERT INTO example_totals AS t (user_id, payments, amount)
SELECT e.user_id, 1, e.amount FROM unnest($1::text[], $2::bigint[]) AS e (user_id, amount)
ON CONFLICT (user_id) DO UPDATE SET payments = t.payments + 1, amount = t.amount + excluded.amount
