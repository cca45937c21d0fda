-- +goose Up

-- What happened to an action, one row per reported event; info is the serialized ActionEvent. Rows are never updated.
CREATE TABLE action_events (
    project     TEXT        NOT NULL,
    domain      TEXT        NOT NULL,
    run_name    TEXT        NOT NULL,
    name        TEXT        NOT NULL,
    attempt     INTEGER     NOT NULL,
    phase       INTEGER     NOT NULL,
    version     INTEGER     NOT NULL,
    info        BYTEA,
    error_kind  TEXT,
    created_at  TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at  TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (project, domain, run_name, name, attempt, phase, version)
);

CREATE INDEX idx_action_events_error_kind ON action_events (error_kind);
