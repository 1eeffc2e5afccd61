"""What people see of a release that is made already."""
