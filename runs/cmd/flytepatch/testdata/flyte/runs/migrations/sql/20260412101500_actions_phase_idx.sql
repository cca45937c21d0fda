CREATE INDEX idx_actions_phase ON actions (phase);
