"""C that ships: one kernel a file, copied into bundles by `codegen`."""
