"""What users have stored: requests and receipts in ledgers, and the frames that a seed gives."""
