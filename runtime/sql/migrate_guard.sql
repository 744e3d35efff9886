-- While a migration is open, this transaction cannot be committed: the row points at one that does not
-- exist, which PostgreSQL notices at COMMIT. migrate.c deletes the row when a file has run to its end, so
-- that a COMMIT inside of a file undoes the file instead of keeping half of it.

CREATE TEMPORARY TABLE urr_migration (
    file text PRIMARY KEY,
    ends text CONSTRAINT urr_migration_is_open REFERENCES urr_migration (file) DEFERRABLE INITIALLY DEFERRED
) ON COMMIT DROP;

INSERT INTO pg_temp.urr_migration (file, ends) VALUES ('open', 'never');
