"""Program -> C files.  The only place, with `runtime/`, that contains C."""
