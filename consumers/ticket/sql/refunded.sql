-- Only the events that did not simply take effect are answered.
SELECT ord, outcome, reason
FROM ticket_apply_refunded($1, $2, $3, $4, $5, $6, $7, $8, $9)
WHERE outcome <> 'applied'
