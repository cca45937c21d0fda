-- +goose Up

-- Serve the search for what changed since a moment, in the order of the change, which a notification listener does after it was
-- disconnected and at intervals.
CREATE INDEX idx_actions_updated_at ON actions (updated_at);
CREATE INDEX idx_action_events_created_at ON action_events (created_at);
