"""kartrl from Python: what `import kartrl` offers besides its environments. docs/library.md shows it."""
