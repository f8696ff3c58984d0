"""Pages that compare the targets of a deployment (reads publications, executes nothing of theirs)."""
