"""Optional: A3C as published, without locks."""
