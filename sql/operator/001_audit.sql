-- Who did what with urrctl, in the database it was done to, in the transaction of the change.

CREATE TABLE operator_audit (
    id      bigint       GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz  NOT NULL DEFAULT now(),
    who     varchar(128) NOT NULL,
    db_role varchar(128) NOT NULL DEFAULT session_user,
    command varchar(100) NOT NULL,
    target  text         NOT NULL,
    before  jsonb,
    after   jsonb
);
CREATE INDEX operator_audit_at ON operator_audit (at);
CREATE INDEX operator_audit_target ON operator_audit (target, at);
COMMENT ON TABLE operator_audit IS
    'Every change made with urrctl: written in the transaction of the change, never updated, never pruned.';
COMMENT ON COLUMN operator_audit.who IS 'Account and host urrctl ran under: ann@ops-1 (behind sudo: the caller).';
COMMENT ON COLUMN operator_audit.db_role IS 'The database''s own word for who it was.';
COMMENT ON COLUMN operator_audit.command IS 'The command without its arguments: offsets set, dlq redrive …';
COMMENT ON COLUMN operator_audit.target IS 'What it was done to: a group, a payment, a message.';
COMMENT ON COLUMN operator_audit.before IS 'What was there before; null where nothing was.';
COMMENT ON COLUMN operator_audit.after IS 'What is there now; null where it is gone.';
