-- What the handlers of all kinds of payment share.

-- The ledger's id of a payment. Events that carry no paymentId are told apart as SPEC 2 tells them
-- apart: by their saga, else by what they pay for.
CREATE OR REPLACE FUNCTION ticket_payment_ref(p_payment text, p_saga text, p_type text, p_subject uuid)
RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT coalesce(p_payment, 'saga:' || p_saga, p_type || ':' || p_subject::text) $$;

-- A handler's verdict is a verb and, for some, a reason: "confirm", "back already_paid", "dead
-- subject_missing". This turns it into the verb to act on, the outcome to report and its reason.
-- Money can be sent back only where the payment service would know which; the internal calls change
-- nothing and send nothing back unless they succeed.
CREATE OR REPLACE FUNCTION ticket_verdict(p_verdict text, p_refundable boolean, p_internal boolean)
RETURNS TABLE (action text, outcome text, reason text) LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT a.action,
           CASE WHEN a.action IN ('noop', 'settle') THEN 'noop'
                WHEN a.action IN ('dead', 'refused', 'ledger_only') THEN a.action
                WHEN a.action IN ('back', 'lost') THEN 'refund_requested'
                ELSE 'applied' END,
           CASE WHEN a.action = 'dead' AND v.verb <> 'dead' THEN 'payment_id_missing'
                WHEN a.action IN ('dead', 'refused', 'back', 'lost') THEN split_part(p_verdict, ' ', 2) END
      FROM (SELECT split_part(p_verdict, ' ', 1) AS verb) v
     CROSS JOIN LATERAL (
           SELECT CASE WHEN p_internal AND v.verb IN ('dead', 'back', 'lost', 'settle') THEN 'refused'
                       WHEN v.verb IN ('back', 'lost') AND NOT p_refundable THEN 'dead'
                       ELSE v.verb END AS action) a
$$;
