-- +goose Up

-- Nearly all events are of no error. An index without those spares each of them an entry, which is what the catch-up's index of
-- created_at costs it. A look-up by error_kind finds its rows here as before: no null is equal to anything, and the planner knows.
--
-- The table can be read while the index is built, but not written, as with the indexes before. The old one is dropped last, because that
-- shuts out readers too, until the end of this file; here they wait for an instant, and for the reads that began before.
CREATE INDEX idx_action_events_error_kind_partial ON action_events (error_kind) WHERE error_kind IS NOT NULL;
DROP INDEX idx_action_events_error_kind;
ALTER INDEX idx_action_events_error_kind_partial RENAME TO idx_action_events_error_kind;
