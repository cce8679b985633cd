"""Programs that run inside a sandbox, with nothing but the standard library and what is shown there."""
