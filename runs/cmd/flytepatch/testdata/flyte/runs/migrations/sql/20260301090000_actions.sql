CREATE TABLE actions (
    project TEXT NOT NULL,
    domain TEXT NOT NULL,
    run_name TEXT NOT NULL DEFAULT '',
    name TEXT NOT NULL,
    parent_action_name TEXT,
    phase INTEGER NOT NULL DEFAULT 1,
    action_spec BYTEA,
    action_details BYTEA,
    detailed_info BYTEA,
    run_spec BYTEA,
    created_at TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (project, domain, run_name, name)
);

CREATE TABLE action_events (
    project TEXT NOT NULL,
    domain TEXT NOT NULL,
    run_name TEXT NOT NULL,
    name TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    phase INTEGER NOT NULL,
    version INTEGER NOT NULL,
    info BYTEA,
    created_at TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (project, domain, run_name, name, attempt, phase, version)
);
