-- Follow-up events as they stand in the outbox: compact JSON, type first, the cause's time last.
-- Plain SQL functions: PostgreSQL inlines them into the statements that use them.

CREATE OR REPLACE FUNCTION message_string(p text) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS
$$ SELECT coalesce(to_json(p)::text, 'null') $$;

-- ISO-8601, UTC, milliseconds.
CREATE OR REPLACE FUNCTION message_time(p timestamptz) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS
$$ SELECT to_char(p AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') $$;

-- From epoch milliseconds, exact: a double holds microseconds of this century.
CREATE OR REPLACE FUNCTION message_instant(p_ms bigint) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT to_timestamp(p_ms::float8 / 1000) $$;

-- The id that ties all events of one saga together. The event's own comes first, then the one its
-- subject was made with; rows older than sagas answer with the subject's id, which all their events
-- share; where there is no subject either, the payment is all there is to follow.
CREATE OR REPLACE FUNCTION message_saga(p_event text, p_subject text, p_subject_id uuid, p_payment text)
RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT coalesce(p_event, p_subject, p_subject_id::text, p_payment) $$;

CREATE OR REPLACE FUNCTION message_reservation_confirmed(p_saga text, p_reservation uuid, p_user text,
    p_event uuid, p_amount bigint, p_method text, p_at timestamptz) RETURNS bytea LANGUAGE sql STABLE AS
$$ SELECT convert_to('{"type":"RESERVATION_CONFIRMED","sagaId":' || message_string(p_saga)
       || ',"reservationId":"' || p_reservation::text || '","userId":' || message_string(p_user)
       || ',"eventId":"' || p_event::text || '","totalAmount":' || p_amount::text
       || ',"paymentMethod":' || message_string(p_method)
       || ',"timestamp":"' || message_time(p_at) || '"}', 'UTF8') $$;

CREATE OR REPLACE FUNCTION message_reservation_cancelled(p_saga text, p_reservation uuid, p_user text,
    p_event uuid, p_amount bigint, p_reason text, p_at timestamptz) RETURNS bytea LANGUAGE sql STABLE AS
$$ SELECT convert_to('{"type":"RESERVATION_CANCELLED","sagaId":' || message_string(p_saga)
       || ',"reservationId":"' || p_reservation::text || '","userId":' || message_string(p_user)
       || ',"eventId":"' || p_event::text || '","totalAmount":' || p_amount::text
       || ',"reason":' || message_string(p_reason)
       || ',"timestamp":"' || message_time(p_at) || '"}', 'UTF8') $$;

CREATE OR REPLACE FUNCTION message_transfer_completed(p_saga text, p_transfer uuid, p_reservation uuid,
    p_seller text, p_buyer text, p_price bigint, p_at timestamptz) RETURNS bytea LANGUAGE sql STABLE AS
$$ SELECT convert_to('{"type":"TRANSFER_COMPLETED","sagaId":' || message_string(p_saga)
       || ',"transferId":"' || p_transfer::text || '","reservationId":"' || p_reservation::text
       || '","sellerId":' || message_string(p_seller) || ',"buyerId":' || message_string(p_buyer)
       || ',"totalPrice":' || p_price::text
       || ',"timestamp":"' || message_time(p_at) || '"}', 'UTF8') $$;

CREATE OR REPLACE FUNCTION message_transfer_cancelled(p_saga text, p_transfer uuid, p_reservation uuid,
    p_seller text, p_reason text, p_at timestamptz) RETURNS bytea LANGUAGE sql STABLE AS
$$ SELECT convert_to('{"type":"TRANSFER_CANCELLED","sagaId":' || message_string(p_saga)
       || ',"transferId":"' || p_transfer::text || '","reservationId":"' || p_reservation::text
       || '","sellerId":' || message_string(p_seller) || ',"reason":' || message_string(p_reason)
       || ',"timestamp":"' || message_time(p_at) || '"}', 'UTF8') $$;

CREATE OR REPLACE FUNCTION message_membership_activated(p_saga text, p_membership uuid, p_user text,
    p_artist uuid, p_at timestamptz) RETURNS bytea LANGUAGE sql STABLE AS
$$ SELECT convert_to('{"type":"MEMBERSHIP_ACTIVATED","sagaId":' || message_string(p_saga)
       || ',"membershipId":"' || p_membership::text || '","userId":' || message_string(p_user)
       || ',"artistId":"' || p_artist::text
       || '","timestamp":"' || message_time(p_at) || '"}', 'UTF8') $$;

CREATE OR REPLACE FUNCTION message_refund_requested(p_saga text, p_payment text, p_order text,
    p_user text, p_amount bigint, p_reason text, p_at timestamptz) RETURNS bytea LANGUAGE sql STABLE AS
$$ SELECT convert_to('{"type":"PAYMENT_REFUND_REQUESTED","sagaId":' || message_string(p_saga)
       || ',"paymentId":' || message_string(p_payment) || ',"orderId":' || message_string(p_order)
       || ',"userId":' || message_string(p_user) || ',"amount":' || p_amount::text
       || ',"reason":' || message_string(p_reason)
       || ',"timestamp":"' || message_time(p_at) || '"}', 'UTF8') $$;

-- Kafka key of a command to the payment service: the order, as in payment-events, else the payment.
CREATE OR REPLACE FUNCTION message_command_key(p_order text, p_payment text) RETURNS bytea
LANGUAGE sql STABLE AS
$$ SELECT convert_to(coalesce(p_order, p_payment), 'UTF8') $$;

CREATE OR REPLACE FUNCTION message_key(p uuid) RETURNS bytea LANGUAGE sql STABLE AS
$$ SELECT convert_to(p::text, 'UTF8') $$;
