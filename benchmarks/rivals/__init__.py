"""VDL next to its rivals: data sets, methods, measures, the runner and the report."""
