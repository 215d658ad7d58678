"""Data that models make: candidates sampled from a policy, verdicts asked of teachers, every request accounted for."""
