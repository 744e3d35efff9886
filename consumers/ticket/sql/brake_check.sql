-- Counts the batch's confirmations; are its refund requests too many to be true?
SELECT tripped, requests, confirmations FROM ticket_brake_check($1, $2)
