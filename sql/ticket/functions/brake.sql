-- The refund brake (SPEC 3): more than 20 refund requests within 60 s that the consumer decided by
-- itself, and more than 5 % of the confirmations. Called last in a batch's transaction, after its
-- effects: when `tripped`, the engine rolls the batch back and pauses the group.
--
-- p_confirmations: PAYMENT_CONFIRMED events of this batch, without duplicates and dead letters.
-- Requests are counted in the ledger, confirmations in one row per batch; batches of several instances
-- write rows of their own. Batches that asked for refunds check one after the other, so that two of
-- them cannot both take the last place. That lock is the last one a batch takes.
CREATE OR REPLACE FUNCTION ticket_brake_check(p_group text, p_confirmations integer)
RETURNS TABLE (tripped boolean, requests bigint, confirmations bigint)
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off AS $$
DECLARE
    c_requests CONSTANT bigint := 20;
    c_share CONSTANT bigint := 20;      -- one in twenty: 5 %
    c_lock CONSTANT bigint := 7238270148201893;
    v_since timestamptz := now() - interval '60 s';
    v_id bigint;
BEGIN
    IF p_confirmations > 0 THEN
        INSERT INTO refund_brake (confirmations) VALUES (p_confirmations) RETURNING id INTO v_id;
        IF v_id % 256 = 0 THEN
            DELETE FROM refund_brake b WHERE b.at < now() - interval '10 min';
        END IF;
    END IF;

    tripped := false; requests := 0; confirmations := 0;
    -- Rows of this very batch are marked with its own now().
    IF NOT EXISTS (SELECT 1 FROM payment_ledger l
                    WHERE l.refund_decided_by = 'consumer' AND l.refund_requested_at = now()) THEN
        RETURN NEXT;
        RETURN;
    END IF;

    PERFORM pg_advisory_xact_lock(c_lock);
    SELECT count(*) INTO requests FROM payment_ledger l
     WHERE l.refund_decided_by = 'consumer' AND l.refund_requested_at > v_since;
    IF requests > c_requests THEN
        SELECT coalesce(sum(b.confirmations), 0) INTO confirmations FROM refund_brake b WHERE b.at > v_since;
        tripped := requests * c_share > confirmations
                   AND NOT EXISTS (SELECT 1 FROM consumer_control c
                                    WHERE c.consumer_group = p_group AND c.brake_released_until > now());
    END IF;
    RETURN NEXT;
END $$;

COMMENT ON FUNCTION ticket_brake_check IS
    'True when the refund requests of the last minute are too many to be true: roll back and pause.';
