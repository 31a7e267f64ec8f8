"""Speed, as ratios measured side by side: ``python -m benchmarks``."""
