"""When to water what."""
