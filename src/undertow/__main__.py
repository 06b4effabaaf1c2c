"""`python -m undertow`."""

from undertow.cli.main import app

app(prog_name="undertow")
