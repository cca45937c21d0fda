-- +goose Up

-- One row per action. A run is its root action: the row whose parent_action_name is null.
CREATE TABLE actions (
    project              TEXT        NOT NULL,
    domain               TEXT        NOT NULL,
    run_name             TEXT        NOT NULL DEFAULT '',
    name                 TEXT        NOT NULL,
    parent_action_name   TEXT,
    phase                INTEGER     NOT NULL DEFAULT 1,
    run_source           TEXT        NOT NULL DEFAULT '',
    action_type          INTEGER     NOT NULL DEFAULT 0,
    action_group         TEXT,
    task_project         TEXT,
    task_domain          TEXT,
    task_name            TEXT,
    task_version         TEXT,
    task_type            TEXT        NOT NULL DEFAULT '',
    task_short_name      TEXT,
    function_name        TEXT        NOT NULL DEFAULT '',
    environment_name     TEXT,
    action_spec          BYTEA,
    action_details       BYTEA,
    detailed_info        BYTEA,
    run_spec             BYTEA,
    abort_requested_at   TIMESTAMPTZ,
    abort_attempt_count  INTEGER     NOT NULL DEFAULT 0,
    abort_reason         TEXT,
    created_at           TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at           TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP,
    ended_at             TIMESTAMPTZ,
    duration_ms          BIGINT,
    attempts             INTEGER     NOT NULL DEFAULT 0,
    cache_status         INTEGER     NOT NULL DEFAULT 0,
    trigger_name         TEXT,
    trigger_task_name    TEXT,
    trigger_revision     BIGINT,
    created_by           BYTEA,
    created_by_subject   TEXT
);

CREATE INDEX idx_actions_run ON actions (project, domain, run_name);
CREATE INDEX idx_actions_parent ON actions (parent_action_name);
CREATE INDEX idx_actions_phase ON actions (phase);
CREATE INDEX idx_actions_created_at ON actions (created_at);
CREATE INDEX idx_actions_abort_requested_at ON actions (abort_requested_at);
CREATE INDEX idx_actions_created_by_subject ON actions (created_by_subject);

-- Serves the keyset pages of one run's actions.
CREATE INDEX idx_actions_run_created_at_name ON actions (project, domain, run_name, created_at, name);

-- Serves "runs that have a paused action"; 9 is ACTION_PHASE_PAUSED. Partial, because paused actions are few at any time.
CREATE INDEX idx_actions_run_paused ON actions (project, domain, run_name) WHERE phase = 9;

-- The last of them on purpose. Until the table has been analyzed, this index and idx_actions_run_created_at_name seem to cost the same for a
-- look-up by the whole key, and PostgreSQL takes the younger one: the other would scan the whole run.
ALTER TABLE actions ADD PRIMARY KEY (project, domain, run_name, name);
