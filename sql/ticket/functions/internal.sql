-- The internal calls of payment services: the same rules and the same ledger as the event that
-- follows. outcome applied or noop (the event, or this call, was here before) is success; refused
-- means 409: nothing was changed and no refund is asked for. Only the event sends money back.

CREATE OR REPLACE FUNCTION ticket_internal_confirm(p_reservation_id uuid, p_payment_id text,
    p_amount bigint, p_payment_method text, p_order_id text DEFAULT NULL, p_saga_id text DEFAULT NULL)
RETURNS TABLE (outcome text, reason text) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM ticket_internal_lock('reservation', p_payment_id, p_reservation_id);
    RETURN QUERY
    SELECT a.outcome, a.reason FROM ticket_apply_confirmed_reservation(
        ARRAY[1], ARRAY[p_payment_id], ARRAY[p_order_id], ARRAY[p_saga_id], ARRAY[NULL::text],
        ARRAY[p_reservation_id], ARRAY[p_amount], ARRAY[p_payment_method], ARRAY[ticket_now_ms()], true) a;
END $$;

CREATE OR REPLACE FUNCTION ticket_internal_complete(p_transfer_id uuid, p_buyer_id text, p_payment_id text,
    p_amount bigint, p_payment_method text, p_order_id text DEFAULT NULL, p_saga_id text DEFAULT NULL)
RETURNS TABLE (outcome text, reason text) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM ticket_internal_lock('transfer', p_payment_id, p_transfer_id);
    RETURN QUERY
    SELECT a.outcome, a.reason FROM ticket_apply_confirmed_transfer(
        ARRAY[1], ARRAY[p_payment_id], ARRAY[p_order_id], ARRAY[p_saga_id], ARRAY[p_buyer_id],
        ARRAY[p_transfer_id], ARRAY[p_amount], ARRAY[p_payment_method], ARRAY[ticket_now_ms()], true) a;
END $$;

CREATE OR REPLACE FUNCTION ticket_internal_activate(p_membership_id uuid, p_payment_id text,
    p_amount bigint, p_payment_method text, p_order_id text DEFAULT NULL, p_saga_id text DEFAULT NULL)
RETURNS TABLE (outcome text, reason text) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM ticket_internal_lock('membership', p_payment_id, p_membership_id);
    RETURN QUERY
    SELECT a.outcome, a.reason FROM ticket_apply_confirmed_membership(
        ARRAY[1], ARRAY[p_payment_id], ARRAY[p_order_id], ARRAY[p_saga_id], ARRAY[NULL::text],
        ARRAY[p_membership_id], ARRAY[p_amount], ARRAY[p_payment_method], ARRAY[ticket_now_ms()], true) a;
END $$;

CREATE OR REPLACE FUNCTION ticket_internal_lock(p_type text, p_payment_id text, p_subject_id uuid)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF p_payment_id IS NULL THEN
        RAISE EXCEPTION 'an internal call needs a paymentId' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM ticket_lock_batch(ARRAY[1], ARRAY['confirmed'], ARRAY[p_payment_id], ARRAY[NULL::text],
                              ARRAY[p_type], ARRAY[p_subject_id]);
END $$;

CREATE OR REPLACE FUNCTION ticket_now_ms() RETURNS bigint LANGUAGE sql STABLE AS
$$ SELECT floor(extract(epoch FROM now()) * 1000)::bigint $$;
