"""How the mechanisms are audited: options and inputs for each, which `registry` collects."""
