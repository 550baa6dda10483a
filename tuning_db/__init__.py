"""What was measured, kept: records with every raw sample, and the published schedules that lookups serve."""
