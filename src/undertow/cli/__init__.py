"""The command line: `undertow derive`, `explain`, `check` and `demo`.

`main` holds the commands and imports neither torch nor triton; what they do stands in
the other modules, which are imported when a command runs.
"""
