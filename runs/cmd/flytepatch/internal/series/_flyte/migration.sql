-- What changed since a moment: read by the notification listener after it was disconnected, and every 30 s.
CREATE INDEX IF NOT EXISTS idx_actions_updated_at ON actions (updated_at);
CREATE INDEX IF NOT EXISTS idx_action_events_created_at ON action_events (created_at);
