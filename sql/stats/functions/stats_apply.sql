-- Adds a batch of events to the figures of one generation: three upserts, however many events.
--
-- The arrays run in parallel. detail: the payment type of a payment event, the reason of a cancelled
-- reservation, else null. amount: null counts as 0. event_id: reservation events only. Rows are written in
-- key order, so that two consumers cannot deadlock. The caller has deduplicated the events.
CREATE OR REPLACE FUNCTION stats_apply(
    p_generation integer,
    p_time_zone  text,
    p_type       text[],
    p_time_ms    bigint[],
    p_event_id   text[],
    p_amount     bigint[],
    p_detail     text[]
) RETURNS void
LANGUAGE sql AS $$
    WITH batch AS (
        SELECT u.type, u.detail, coalesce(u.amount, 0) AS amount,
               (to_timestamp(u.time_ms / 1000.0) AT TIME ZONE p_time_zone)::date AS day
          FROM unnest(p_type, p_time_ms, p_amount, p_detail) AS u(type, time_ms, amount, detail)
    )
    INSERT INTO daily_stats_gen AS d (
        generation, date, reservations_created, reservations_confirmed,
        cancelled_expired, cancelled_user, cancelled_refunded, cancelled_amount_mismatch,
        cancelled_seat_lost, cancelled_event_cancelled, total_revenue, refunded_revenue,
        payments_confirmed, payment_revenue, transfer_payments, transfer_amount,
        membership_payments, membership_amount, payments_refunded, refund_amount,
        transfers_completed, transfers_completed_amount, transfers_cancelled, memberships_activated)
    SELECT p_generation, day,
           count(*) FILTER (WHERE type = 'RESERVATION_CREATED'),
           count(*) FILTER (WHERE type = 'RESERVATION_CONFIRMED'),
           count(*) FILTER (WHERE type = 'RESERVATION_CANCELLED' AND detail = 'expired'),
           count(*) FILTER (WHERE type = 'RESERVATION_CANCELLED' AND detail = 'user'),
           count(*) FILTER (WHERE type = 'RESERVATION_CANCELLED' AND detail = 'refunded'),
           count(*) FILTER (WHERE type = 'RESERVATION_CANCELLED' AND detail = 'amount_mismatch'),
           count(*) FILTER (WHERE type = 'RESERVATION_CANCELLED' AND detail = 'seat_lost'),
           count(*) FILTER (WHERE type = 'RESERVATION_CANCELLED' AND detail = 'event_cancelled'),
           coalesce(sum(amount) FILTER (WHERE type = 'RESERVATION_CONFIRMED'), 0),
           coalesce(sum(amount) FILTER (WHERE type = 'RESERVATION_CANCELLED' AND detail = 'refunded'), 0),
           count(*) FILTER (WHERE type = 'PAYMENT_CONFIRMED'),
           coalesce(sum(amount) FILTER (WHERE type = 'PAYMENT_CONFIRMED'), 0),
           count(*) FILTER (WHERE type = 'PAYMENT_CONFIRMED' AND detail = 'transfer'),
           coalesce(sum(amount) FILTER (WHERE type = 'PAYMENT_CONFIRMED' AND detail = 'transfer'), 0),
           count(*) FILTER (WHERE type = 'PAYMENT_CONFIRMED' AND detail = 'membership'),
           coalesce(sum(amount) FILTER (WHERE type = 'PAYMENT_CONFIRMED' AND detail = 'membership'), 0),
           count(*) FILTER (WHERE type = 'PAYMENT_REFUNDED'),
           coalesce(sum(amount) FILTER (WHERE type = 'PAYMENT_REFUNDED'), 0),
           count(*) FILTER (WHERE type = 'TRANSFER_COMPLETED'),
           coalesce(sum(amount) FILTER (WHERE type = 'TRANSFER_COMPLETED'), 0),
           count(*) FILTER (WHERE type = 'TRANSFER_CANCELLED'),
           count(*) FILTER (WHERE type = 'MEMBERSHIP_ACTIVATED')
      FROM batch
     GROUP BY day
     ORDER BY day
    ON CONFLICT (generation, date) DO UPDATE SET
        reservations_created       = d.reservations_created + EXCLUDED.reservations_created,
        reservations_confirmed     = d.reservations_confirmed + EXCLUDED.reservations_confirmed,
        cancelled_expired          = d.cancelled_expired + EXCLUDED.cancelled_expired,
        cancelled_user             = d.cancelled_user + EXCLUDED.cancelled_user,
        cancelled_refunded         = d.cancelled_refunded + EXCLUDED.cancelled_refunded,
        cancelled_amount_mismatch  = d.cancelled_amount_mismatch + EXCLUDED.cancelled_amount_mismatch,
        cancelled_seat_lost        = d.cancelled_seat_lost + EXCLUDED.cancelled_seat_lost,
        cancelled_event_cancelled  = d.cancelled_event_cancelled + EXCLUDED.cancelled_event_cancelled,
        total_revenue              = d.total_revenue + EXCLUDED.total_revenue,
        refunded_revenue           = d.refunded_revenue + EXCLUDED.refunded_revenue,
        payments_confirmed         = d.payments_confirmed + EXCLUDED.payments_confirmed,
        payment_revenue            = d.payment_revenue + EXCLUDED.payment_revenue,
        transfer_payments          = d.transfer_payments + EXCLUDED.transfer_payments,
        transfer_amount            = d.transfer_amount + EXCLUDED.transfer_amount,
        membership_payments        = d.membership_payments + EXCLUDED.membership_payments,
        membership_amount          = d.membership_amount + EXCLUDED.membership_amount,
        payments_refunded          = d.payments_refunded + EXCLUDED.payments_refunded,
        refund_amount              = d.refund_amount + EXCLUDED.refund_amount,
        transfers_completed        = d.transfers_completed + EXCLUDED.transfers_completed,
        transfers_completed_amount = d.transfers_completed_amount + EXCLUDED.transfers_completed_amount,
        transfers_cancelled        = d.transfers_cancelled + EXCLUDED.transfers_cancelled,
        memberships_activated      = d.memberships_activated + EXCLUDED.memberships_activated,
        updated_at                 = now();

    WITH batch AS (
        SELECT u.type, u.detail, u.event_id, coalesce(u.amount, 0) AS amount,
               (to_timestamp(u.time_ms / 1000.0) AT TIME ZONE p_time_zone)::date AS day
          FROM unnest(p_type, p_time_ms, p_event_id, p_amount, p_detail)
               AS u(type, time_ms, event_id, amount, detail)
         WHERE u.event_id IS NOT NULL
    )
    INSERT INTO event_daily_stats_gen AS d (
        generation, date, event_id, reservations_created, reservations_confirmed,
        cancelled_expired, cancelled_user, cancelled_refunded, cancelled_amount_mismatch,
        cancelled_seat_lost, cancelled_event_cancelled, total_revenue, refunded_revenue)
    SELECT p_generation, day, event_id,
           count(*) FILTER (WHERE type = 'RESERVATION_CREATED'),
           count(*) FILTER (WHERE type = 'RESERVATION_CONFIRMED'),
           count(*) FILTER (WHERE type = 'RESERVATION_CANCELLED' AND detail = 'expired'),
           count(*) FILTER (WHERE type = 'RESERVATION_CANCELLED' AND detail = 'user'),
           count(*) FILTER (WHERE type = 'RESERVATION_CANCELLED' AND detail = 'refunded'),
           count(*) FILTER (WHERE type = 'RESERVATION_CANCELLED' AND detail = 'amount_mismatch'),
           count(*) FILTER (WHERE type = 'RESERVATION_CANCELLED' AND detail = 'seat_lost'),
           count(*) FILTER (WHERE type = 'RESERVATION_CANCELLED' AND detail = 'event_cancelled'),
           coalesce(sum(amount) FILTER (WHERE type = 'RESERVATION_CONFIRMED'), 0),
           coalesce(sum(amount) FILTER (WHERE type = 'RESERVATION_CANCELLED' AND detail = 'refunded'), 0)
      FROM batch
     GROUP BY day, event_id
     ORDER BY day, event_id COLLATE "C"
    ON CONFLICT (generation, date, event_id) DO UPDATE SET
        reservations_created      = d.reservations_created + EXCLUDED.reservations_created,
        reservations_confirmed    = d.reservations_confirmed + EXCLUDED.reservations_confirmed,
        cancelled_expired         = d.cancelled_expired + EXCLUDED.cancelled_expired,
        cancelled_user            = d.cancelled_user + EXCLUDED.cancelled_user,
        cancelled_refunded        = d.cancelled_refunded + EXCLUDED.cancelled_refunded,
        cancelled_amount_mismatch = d.cancelled_amount_mismatch + EXCLUDED.cancelled_amount_mismatch,
        cancelled_seat_lost       = d.cancelled_seat_lost + EXCLUDED.cancelled_seat_lost,
        cancelled_event_cancelled = d.cancelled_event_cancelled + EXCLUDED.cancelled_event_cancelled,
        total_revenue             = d.total_revenue + EXCLUDED.total_revenue,
        refunded_revenue          = d.refunded_revenue + EXCLUDED.refunded_revenue,
        updated_at                = now();

    WITH batch AS (
        SELECT u.type, coalesce(u.amount, 0) AS amount,
               date_trunc('hour', to_timestamp(u.time_ms / 1000.0), p_time_zone) AS hour
          FROM unnest(p_type, p_time_ms, p_amount) AS u(type, time_ms, amount)
    )
    INSERT INTO hourly_stats_gen AS h (
        generation, hour, reservations_created, reservations_confirmed, reservations_cancelled,
        total_revenue, payments_confirmed, payment_revenue, payments_refunded, refund_amount)
    SELECT p_generation, hour,
           count(*) FILTER (WHERE type = 'RESERVATION_CREATED'),
           count(*) FILTER (WHERE type = 'RESERVATION_CONFIRMED'),
           count(*) FILTER (WHERE type = 'RESERVATION_CANCELLED'),
           coalesce(sum(amount) FILTER (WHERE type = 'RESERVATION_CONFIRMED'), 0),
           count(*) FILTER (WHERE type = 'PAYMENT_CONFIRMED'),
           coalesce(sum(amount) FILTER (WHERE type = 'PAYMENT_CONFIRMED'), 0),
           count(*) FILTER (WHERE type = 'PAYMENT_REFUNDED'),
           coalesce(sum(amount) FILTER (WHERE type = 'PAYMENT_REFUNDED'), 0)
      FROM batch
     GROUP BY hour
     ORDER BY hour
    ON CONFLICT (generation, hour) DO UPDATE SET
        reservations_created   = h.reservations_created + EXCLUDED.reservations_created,
        reservations_confirmed = h.reservations_confirmed + EXCLUDED.reservations_confirmed,
        reservations_cancelled = h.reservations_cancelled + EXCLUDED.reservations_cancelled,
        total_revenue          = h.total_revenue + EXCLUDED.total_revenue,
        payments_confirmed     = h.payments_confirmed + EXCLUDED.payments_confirmed,
        payment_revenue        = h.payment_revenue + EXCLUDED.payment_revenue,
        payments_refunded      = h.payments_refunded + EXCLUDED.payments_refunded,
        refund_amount          = h.refund_amount + EXCLUDED.refund_amount,
        updated_at             = now();
$$;
COMMENT ON FUNCTION stats_apply IS 'Adds a batch of deduplicated events to one generation of the figures.';
