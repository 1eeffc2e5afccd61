"""Pages and figures that show a release to people."""
