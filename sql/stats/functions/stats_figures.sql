-- What the read API answers, as JSON, one function a question, each from one snapshot. Field names and
-- types: docs/openapi-stats.yaml. Days are those of p_time_zone; "today" is the day of now() there.

CREATE OR REPLACE FUNCTION stats_iso(p_at timestamptz)
RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT to_char(p_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;
COMMENT ON FUNCTION stats_iso IS 'ISO-8601 in UTC with milliseconds.';

-- The days asked for, also those without events.
CREATE OR REPLACE FUNCTION stats_days(p_time_zone text, p_days integer)
RETURNS TABLE (date date)
LANGUAGE sql STABLE AS $$
    SELECT (now() AT TIME ZONE p_time_zone)::date - back
      FROM generate_series(p_days - 1, 0, -1) AS back
$$;
COMMENT ON FUNCTION stats_days IS 'The last p_days days up to today, oldest first.';

-- Null while there is nothing to divide by.
CREATE OR REPLACE FUNCTION stats_ratio(p_part numeric, p_whole numeric)
RETURNS numeric
LANGUAGE sql IMMUTABLE AS $$
    SELECT round(p_part / nullif(p_whole, 0), 4)
$$;
COMMENT ON FUNCTION stats_ratio IS 'p_part / p_whole to four digits, null for an empty whole.';

-- One row of daily_stats (or a sum of several, null for none) as the API's Figures.
CREATE OR REPLACE FUNCTION stats_figures_json(
    p_total bigint, p_confirmed bigint, p_cancelled bigint, p_revenue bigint, p_refunded bigint,
    p_payment bigint, p_refunds bigint, p_transfers bigint, p_transfer_amount bigint, p_memberships bigint
) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_build_object(
        'totalReservations', coalesce(p_total, 0),
        'confirmedReservations', coalesce(p_confirmed, 0),
        'cancelledReservations', coalesce(p_cancelled, 0),
        'totalRevenue', coalesce(p_revenue, 0),
        'refundedRevenue', coalesce(p_refunded, 0),
        'netRevenue', coalesce(p_revenue, 0) - coalesce(p_refunded, 0),
        'paymentRevenue', coalesce(p_payment, 0),
        'refunds', coalesce(p_refunds, 0),
        'netPaymentRevenue', coalesce(p_payment, 0) - coalesce(p_refunds, 0),
        'transfers', coalesce(p_transfers, 0),
        'transferAmount', coalesce(p_transfer_amount, 0),
        'memberships', coalesce(p_memberships, 0))
$$;
COMMENT ON FUNCTION stats_figures_json IS 'The API''s Figures object.';

CREATE OR REPLACE FUNCTION stats_overview(p_time_zone text)
RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object(
        'generatedAt', stats_iso(now()),
        'timeZone', p_time_zone,
        'firstDate', (SELECT min(date) FROM daily_stats),
        'events', (SELECT count(DISTINCT event_id) FROM event_daily_stats),
        'totals', (SELECT stats_figures_json(
                sum(total_reservations)::bigint, sum(confirmed_reservations)::bigint,
                sum(cancelled_reservations)::bigint, sum(total_revenue)::bigint,
                sum(refunded_revenue)::bigint, sum(payment_revenue)::bigint, sum(refunds)::bigint,
                sum(transfers)::bigint, sum(transfer_amount)::bigint, sum(memberships)::bigint)
            FROM daily_stats),
        'today', (SELECT stats_figures_json(
                sum(total_reservations)::bigint, sum(confirmed_reservations)::bigint,
                sum(cancelled_reservations)::bigint, sum(total_revenue)::bigint,
                sum(refunded_revenue)::bigint, sum(payment_revenue)::bigint, sum(refunds)::bigint,
                sum(transfers)::bigint, sum(transfer_amount)::bigint, sum(memberships)::bigint)
            FROM daily_stats WHERE date = (now() AT TIME ZONE p_time_zone)::date))
$$;
COMMENT ON FUNCTION stats_overview IS 'GET /api/stats/overview.';

CREATE OR REPLACE FUNCTION stats_daily(p_time_zone text, p_days integer)
RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object(
        'from', min(day.date), 'to', max(day.date), 'timeZone', p_time_zone,
        'items', jsonb_agg(
            stats_figures_json(s.total_reservations, s.confirmed_reservations, s.cancelled_reservations,
                s.total_revenue, s.refunded_revenue, s.payment_revenue, s.refunds, s.transfers,
                s.transfer_amount, s.memberships)
            || jsonb_build_object('date', day.date, 'newUsers', s.new_users,
                'activeUsers', s.active_users, 'newEvents', s.new_events,
                'activeEvents', s.active_events)
            ORDER BY day.date))
      FROM stats_days(p_time_zone, p_days) day
      LEFT JOIN daily_stats s USING (date)
$$;
COMMENT ON FUNCTION stats_daily IS 'GET /api/stats/daily.';

CREATE OR REPLACE FUNCTION stats_event_json(s event_stats)
RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object(
        'eventId', s.event_id,
        'totalReservations', s.total_reservations,
        'confirmedReservations', s.confirmed_reservations,
        'cancelledReservations', s.cancelled_reservations,
        'totalRevenue', s.total_revenue,
        'refundedRevenue', s.refunded_revenue,
        'netRevenue', s.total_revenue - s.refunded_revenue,
        'averageOrderValue', s.total_revenue / nullif(s.confirmed_reservations, 0),
        'averageTicketPrice', s.average_ticket_price,
        'totalSeats', s.total_seats,
        'reservedSeats', s.reserved_seats,
        'availableSeats', s.available_seats,
        'viewCount', s.view_count)
$$;
COMMENT ON FUNCTION stats_event_json IS 'The API''s EventFigures object.';

CREATE OR REPLACE FUNCTION stats_events(p_sort text, p_limit integer)
RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object('sortBy', p_sort,
        'items', coalesce(jsonb_agg(stats_event_json(top) ORDER BY top_place), '[]'))
      FROM (SELECT s AS top, row_number() OVER (ORDER BY
                CASE p_sort WHEN 'reservations' THEN s.total_reservations
                            WHEN 'confirmed' THEN s.confirmed_reservations
                            WHEN 'cancelled' THEN s.cancelled_reservations
                            ELSE s.total_revenue END DESC, s.event_id) AS top_place
              FROM event_stats s) ranked
     WHERE top_place <= p_limit
$$;
COMMENT ON FUNCTION stats_events IS 'GET /api/stats/events.';

-- Null when no figure of that event exists.
CREATE OR REPLACE FUNCTION stats_event(p_event_id text)
RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT stats_event_json(s) || jsonb_build_object('days', (
        SELECT jsonb_agg(jsonb_build_object(
                'date', d.date,
                'totalReservations', d.total_reservations,
                'confirmedReservations', d.confirmed_reservations,
                'cancelledReservations', d.cancelled_reservations,
                'totalRevenue', d.total_revenue,
                'refundedRevenue', d.refunded_revenue) ORDER BY d.date)
          FROM event_daily_stats d WHERE d.event_id = p_event_id))
      FROM event_stats s
     WHERE s.event_id = p_event_id
$$;
COMMENT ON FUNCTION stats_event IS 'GET /api/stats/events/{eventId}.';

CREATE OR REPLACE FUNCTION stats_payments(p_time_zone text)
RETURNS jsonb
LANGUAGE sql STABLE AS $$
    WITH figures AS (
        SELECT date, jsonb_build_object(
                'payments', coalesce(payments_confirmed, 0),
                'paymentRevenue', coalesce(payment_revenue, 0),
                'refundCount', coalesce(payments_refunded, 0),
                'refunds', coalesce(refunds, 0),
                'netPaymentRevenue', coalesce(payment_revenue, 0) - coalesce(refunds, 0),
                'transferPayments', coalesce(transfer_payments, 0),
                'transferAmount', coalesce(transfer_amount, 0),
                'membershipPayments', coalesce(membership_payments, 0),
                'membershipAmount', coalesce(membership_amount, 0)) AS json
          FROM (SELECT date, payments_confirmed, payment_revenue, payments_refunded, refunds,
                       transfer_payments, transfer_amount, membership_payments, membership_amount
                  FROM stats_days(p_time_zone, 30) LEFT JOIN daily_stats USING (date)
                UNION ALL
                SELECT NULL, sum(payments_confirmed), sum(payment_revenue), sum(payments_refunded),
                       sum(refunds), sum(transfer_payments), sum(transfer_amount),
                       sum(membership_payments), sum(membership_amount)
                  FROM daily_stats) u
    )
    SELECT jsonb_build_object(
        'totals', (SELECT json FROM figures WHERE date IS NULL),
        'days', (SELECT jsonb_agg(json || jsonb_build_object('date', date) ORDER BY date)
                   FROM figures WHERE date IS NOT NULL))
$$;
COMMENT ON FUNCTION stats_payments IS 'GET /api/stats/payments.';

CREATE OR REPLACE FUNCTION stats_revenue(p_time_zone text, p_period text, p_days integer)
RETURNS jsonb
LANGUAGE sql STABLE AS $$
    WITH periods AS (
        SELECT date_trunc(CASE p_period WHEN 'weekly' THEN 'week' WHEN 'monthly' THEN 'month'
                                        ELSE 'day' END, day.date::timestamp)::date AS start,
               min(day.date) AS first, max(day.date) AS last,
               coalesce(sum(s.total_revenue), 0)::bigint AS revenue,
               coalesce(sum(s.refunded_revenue), 0)::bigint AS refunded,
               coalesce(sum(s.payment_revenue), 0)::bigint AS payment,
               coalesce(sum(s.refunds), 0)::bigint AS refunds
          FROM stats_days(p_time_zone, p_days) day
          LEFT JOIN daily_stats s USING (date)
         GROUP BY 1
    )
    SELECT jsonb_build_object('period', p_period, 'from', min(first), 'to', max(last),
        'items', jsonb_agg(jsonb_build_object(
            'start', start, 'totalRevenue', revenue, 'refundedRevenue', refunded,
            'netRevenue', revenue - refunded, 'paymentRevenue', payment, 'refunds', refunds,
            'netPaymentRevenue', payment - refunds) ORDER BY start))
      FROM periods
$$;
COMMENT ON FUNCTION stats_revenue IS 'GET /api/stats/revenue.';

CREATE OR REPLACE FUNCTION stats_hour_json(p_created bigint, p_confirmed bigint, p_cancelled bigint,
                                           p_payments bigint, p_refunds bigint)
RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_build_object(
        'created', coalesce(p_created, 0), 'confirmed', coalesce(p_confirmed, 0),
        'cancelled', coalesce(p_cancelled, 0), 'payments', coalesce(p_payments, 0),
        'refunds', coalesce(p_refunds, 0))
$$;
COMMENT ON FUNCTION stats_hour_json IS 'The API''s HourFigures object.';

CREATE OR REPLACE FUNCTION stats_hourly_traffic(p_time_zone text, p_days integer)
RETURNS jsonb
LANGUAGE sql STABLE AS $$
    WITH days AS (SELECT min(date) AS first, max(date) AS last FROM stats_days(p_time_zone, p_days)),
    hours AS (
        SELECT extract(hour FROM h.hour AT TIME ZONE p_time_zone)::integer AS hour,
               sum(reservations_created)::bigint AS created,
               sum(reservations_confirmed)::bigint AS confirmed,
               sum(reservations_cancelled)::bigint AS cancelled,
               sum(payments_confirmed)::bigint AS payments,
               sum(payments_refunded)::bigint AS refunds
          FROM hourly_stats h, days
         WHERE h.hour >= days.first::timestamp AT TIME ZONE p_time_zone
           AND h.hour < (days.last + 1)::timestamp AT TIME ZONE p_time_zone
         GROUP BY 1
    )
    SELECT jsonb_build_object('from', days.first, 'to', days.last, 'timeZone', p_time_zone,
        'hours', (SELECT jsonb_agg(stats_hour_json(created, confirmed, cancelled, payments, refunds)
                         || jsonb_build_object('hour', n) ORDER BY n)
                    FROM generate_series(0, 23) AS n LEFT JOIN hours ON hours.hour = n))
      FROM days
$$;
COMMENT ON FUNCTION stats_hourly_traffic IS 'GET /api/stats/hourly-traffic.';

CREATE OR REPLACE FUNCTION stats_conversion(p_time_zone text, p_days integer)
RETURNS jsonb
LANGUAGE sql STABLE AS $$
    WITH days AS (
        SELECT date, coalesce(total_reservations, 0) AS created,
               coalesce(confirmed_reservations, 0) AS confirmed
          FROM stats_days(p_time_zone, p_days) LEFT JOIN daily_stats USING (date)
    )
    SELECT jsonb_build_object('from', min(date), 'to', max(date),
        'created', sum(created), 'confirmed', sum(confirmed),
        'conversionRate', stats_ratio(sum(confirmed), sum(created)),
        'items', jsonb_agg(jsonb_build_object('date', date, 'created', created,
            'confirmed', confirmed, 'conversionRate', stats_ratio(confirmed, created)) ORDER BY date))
      FROM days
$$;
COMMENT ON FUNCTION stats_conversion IS 'GET /api/stats/conversion.';

CREATE OR REPLACE FUNCTION stats_reasons_json(p_expired bigint, p_user bigint, p_refunded bigint,
                                              p_mismatch bigint, p_seat_lost bigint, p_event bigint)
RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_build_object(
        'expired', coalesce(p_expired, 0), 'user', coalesce(p_user, 0),
        'refunded', coalesce(p_refunded, 0), 'amount_mismatch', coalesce(p_mismatch, 0),
        'seat_lost', coalesce(p_seat_lost, 0), 'event_cancelled', coalesce(p_event, 0))
$$;
COMMENT ON FUNCTION stats_reasons_json IS 'Cancelled reservations by reason.';

CREATE OR REPLACE FUNCTION stats_cancellations(p_time_zone text, p_days integer)
RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object('from', min(date), 'to', max(date),
        'total', coalesce(sum(s.cancelled_reservations), 0),
        'cancellationRate', stats_ratio(sum(s.cancelled_reservations), sum(s.total_reservations)),
        'reasons', stats_reasons_json(sum(s.cancelled_expired)::bigint, sum(s.cancelled_user)::bigint,
            sum(s.cancelled_refunded)::bigint, sum(s.cancelled_amount_mismatch)::bigint,
            sum(s.cancelled_seat_lost)::bigint, sum(s.cancelled_event_cancelled)::bigint),
        'items', jsonb_agg(jsonb_build_object('date', date,
            'total', coalesce(s.cancelled_reservations, 0),
            'reasons', stats_reasons_json(s.cancelled_expired, s.cancelled_user, s.cancelled_refunded,
                s.cancelled_amount_mismatch, s.cancelled_seat_lost, s.cancelled_event_cancelled))
            ORDER BY date))
      FROM stats_days(p_time_zone, p_days) LEFT JOIN daily_stats s USING (date)
$$;
COMMENT ON FUNCTION stats_cancellations IS 'GET /api/stats/cancellations.';

CREATE OR REPLACE FUNCTION stats_realtime(p_time_zone text, p_group text)
RETURNS jsonb
LANGUAGE sql STABLE AS $$
    WITH clock AS (SELECT date_trunc('hour', now(), p_time_zone) AS hour),
    freshness AS (
        SELECT CASE WHEN count(*) = count(caught_up_at) THEN min(caught_up_at) END AS at
          FROM consumer_offsets WHERE consumer_group = p_group
    )
    SELECT jsonb_build_object(
        'generatedAt', stats_iso(now()),
        'timeZone', p_time_zone,
        'currentHour', stats_hour_json(cur.reservations_created, cur.reservations_confirmed,
            cur.reservations_cancelled, cur.payments_confirmed, cur.payments_refunded),
        'previousHour', stats_hour_json(prev.reservations_created, prev.reservations_confirmed,
            prev.reservations_cancelled, prev.payments_confirmed, prev.payments_refunded),
        'caughtUpAt', stats_iso(freshness.at),
        'lagSeconds', CASE WHEN freshness.at IS NOT NULL
            THEN greatest(0, floor(extract(epoch FROM now() - freshness.at)))::bigint END)
      FROM clock
     CROSS JOIN freshness
      LEFT JOIN hourly_stats cur ON cur.hour = clock.hour
      LEFT JOIN hourly_stats prev ON prev.hour = clock.hour - interval '1 hour'
$$;
COMMENT ON FUNCTION stats_realtime IS 'GET /api/stats/realtime.';

CREATE OR REPLACE FUNCTION stats_performance(p_group text)
RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object(
        'conversionRate', stats_ratio(sum(confirmed_reservations), sum(total_reservations)),
        'cancellationRate', stats_ratio(sum(cancelled_reservations), sum(total_reservations)),
        'refundRate', stats_ratio(sum(refunds), sum(payment_revenue)),
        'averageOrderValue', (sum(total_revenue) / nullif(sum(confirmed_reservations), 0))::bigint,
        'eventsProcessed', coalesce(sum(total_reservations + confirmed_reservations
            + cancelled_reservations + payments_confirmed + payments_refunded + transfers
            + transfers_cancelled + memberships), 0),
        'partitions', (SELECT coalesce(jsonb_agg(jsonb_build_object(
                'topic', topic, 'partition', partition, 'nextOffset', next_offset,
                'caughtUpAt', stats_iso(caught_up_at)) ORDER BY topic, partition), '[]')
            FROM consumer_offsets WHERE consumer_group = p_group))
      FROM daily_stats
$$;
COMMENT ON FUNCTION stats_performance IS 'GET /api/stats/performance.';
