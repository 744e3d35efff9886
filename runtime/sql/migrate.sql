-- What migrate.c keeps in each database it has touched. Both tables only grow; rows are never edited
-- by hand: a changed checksum is how a rewritten history is found.

CREATE TABLE IF NOT EXISTS schema_migrations (
    set_name   text        NOT NULL,
    version    integer     NOT NULL CHECK (version > 0),
    name       text        NOT NULL,
    checksum   text        NOT NULL, -- SHA-256 of the file, hexadecimal
    applied_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (set_name, version)
);

CREATE TABLE IF NOT EXISTS schema_functions (
    set_name   text        NOT NULL,
    name       text        NOT NULL,
    checksum   text        NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (set_name, name)
);
