"""The gateway: an owner's process that holds data, policy and budget, and answers analysts."""
