"""What code is generated for (Target), the machine that is timed (Device), and how fast it could go (Roofline)."""
