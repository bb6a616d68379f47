"""Decision tables lifted from the source of path functions: evaluated beside the functions, which stay the judges."""
